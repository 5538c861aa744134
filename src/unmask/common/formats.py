"""Numbers and texts as people read them: bounds, and a long text cut down to the parts around
its blanks.

An upper bound is rounded up and a lower bound down, so that what is printed still holds. The
float is rounded as the exact number that it is, once: 0.001104 as a percentage of two digits is
at most 0.12, at least 0.11.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

UP, DOWN = (Context(prec=2, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))
"""Bounds have two significant digits."""
PLAIN = Decimal("1e-4")
"""Smaller numbers are written with an exponent."""


def at_most(value: float) -> str:
    """An upper bound of a number above 0 in two significant digits, such as "3.1e-16"."""
    return f"{UP.create_decimal(value):.1e}" if value else "0"


def percent_at_most(share: float) -> str:
    """An upper bound of a share of 1 as a percentage, such as "2.5 %": two significant digits,
    and never above 100.
    """
    return _percent(share, UP)


def percent_at_least(share: float) -> str:
    """A lower bound of a share of 1 as a percentage, such as "33.3 %": one decimal, or two
    digits where it is below 1 %.
    """
    if share < 0.01:
        return _percent(share, DOWN)
    return f"{Decimal(min(share, 1.0)).quantize(Decimal('0.001'), ROUND_FLOOR).scaleb(2)} %"


def count_at_most(count: int) -> str:
    """A number of things; from a million million on, a bound of it in two digits."""
    return f"{count:,}" if count < 10**12 else at_most(count)


def _percent(share: float, context: Context) -> str:
    percent = context.scaleb(Decimal(min(max(share, 0.0), 1.0)), 2) or Decimal(0)
    return f"{percent:.1e} %" if 0 < percent < PLAIN else f"{percent:f} %"


Span = tuple[int, int]
BLANK = re.compile(re.escape("[MASK]"))
GAP = "…"


def excerpt(text: str, spans: Sequence[Span], width: int) -> tuple[str, tuple[Span, ...]]:
    """At most about `width` characters of the text, what is around the spans, gaps shown by
    dots; and the spans in it.
    """
    spans = sorted(spans) or [(0, 0)]
    around = len(text)
    if len(text) > width:
        around = max(
            1, (width - sum(stop - start for start, stop in spans)) // (2 * len(spans)) - len(GAP)
        )
    part, places, end = "", [], 0
    for (start, stop), following in zip(
        spans, [*(start for start, _ in spans[1:]), len(text)], strict=True
    ):
        left, right = max(end, start - around), min(following, stop + around)
        part += (GAP if left > end else "") + text[left:start]
        places.append((len(part), len(part) + stop - start))
        part, end = part + text[start:right], right
    return part + (GAP if end < len(text) else ""), tuple(span for span in places if span[1])


def around_blanks(text: str, width: int) -> str:
    """A text with blanks, cut down to the parts around them."""
    return excerpt(text, [match.span() for match in BLANK.finditer(text)], width)[0]
