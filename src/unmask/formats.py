"""Numbers and texts as people read them: bounds, and a long text cut down to the parts around its blanks.

An upper bound is rounded up and a lower bound down, so that what is printed still holds. The float is rounded as the exact number
that it is, once: 0.001104 as a percentage of two digits is at most 0.12, at least 0.11.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

DIGITS = 2
"""Significant digits of a bound."""
EXACT = 1200
"""Digits that hold every float."""
PLAIN = Decimal("1e-4")
"""Smaller numbers are written with an exponent."""


def at_most(value: float) -> str:
    """An upper bound of a number above 0 in two significant digits, such as "3.1e-16"."""
    return f"{_digits(Decimal(value), ROUND_CEILING):.1e}" if value else "0"


def percent_at_most(share: float) -> str:
    """An upper bound of a share of 1 as a percentage, such as "2.5 %": two significant digits, and never above 100."""
    return _percent(min(max(share, 0.0), 1.0), ROUND_CEILING)


def percent_at_least(share: float) -> str:
    """A lower bound of a share of 1 as a percentage, such as "33.3 %": one decimal, or two digits where it is below 1 %."""
    return _percent(min(max(share, 0.0), 1.0), ROUND_FLOOR, decimals=1)


def count_at_most(count: int) -> str:
    """A number of things; from a million million on, a bound of it in two digits."""
    return f"{count:,}" if count < 10**12 else f"{_digits(Decimal(count), ROUND_CEILING):.1e}"


def _percent(share: float, rounding: str, decimals: int | None = None) -> str:
    with localcontext(prec=EXACT):
        value = Decimal(share) * 100
    if decimals is not None and value >= 1:
        with localcontext(prec=EXACT):
            return f"{value.quantize(Decimal(1).scaleb(-decimals), rounding) + 0:f} %"
    shown = _digits(value, rounding)
    return f"{shown:.1e} %" if 0 < shown < PLAIN else f"{shown:f} %"


def _digits(value: Decimal, rounding: str) -> Decimal:
    """The number with DIGITS significant digits."""
    if not value:
        return Decimal(0)
    with localcontext(prec=EXACT):
        first = value.adjusted() - DIGITS + 1
        return value.scaleb(-first).quantize(Decimal(1), rounding).scaleb(first)


Span = tuple[int, int]
BLANK = re.compile(re.escape("[MASK]"))
GAP = "…"


def excerpt(text: str, spans: Sequence[Span], width: int) -> tuple[str, tuple[Span, ...]]:
    """At most about `width` characters of the text, what is around the spans, gaps shown by dots; and the spans in it."""
    spans = sorted(spans) or [(0, 0)]
    around = len(text)
    if len(text) > width:
        around = max(1, (width - sum(stop - start for start, stop in spans)) // (2 * len(spans)) - len(GAP))
    part, places, end = "", [], 0
    for (start, stop), following in zip(spans, [*(start for start, _ in spans[1:]), len(text)], strict=True):
        left, right = max(end, start - around), min(following, stop + around)
        part += (GAP if left > end else "") + text[left:start]
        places.append((len(part), len(part) + stop - start))
        part, end = part + text[start:right], right
    return part + (GAP if end < len(text) else ""), tuple(span for span in places if span[1])


def around_blanks(text: str, width: int) -> str:
    """A text with blanks, cut down to the parts around them."""
    return excerpt(text, [match.span() for match in BLANK.finditer(text)], width)[0]
