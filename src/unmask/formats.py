"""Numbers and texts as people read them: bounds, and a long text cut down to the parts around its blanks.

An upper bound is rounded up and a lower bound down, so that what is printed still holds. The float is rounded as the exact number
that it is, once: 0.001104 as a percentage of two digits is at most 0.12, at least 0.11.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import NamedTuple

DIGITS = 2
"""Significant digits of a bound."""
EXACT = 1200
"""Digits that hold every float."""
PLAIN = Decimal("1e-4")
"""Smaller numbers are written with an exponent."""


def up(value: float, decimals: int = 3) -> str:
    """A number that is not below `value`."""
    return _fixed(value, decimals, ROUND_CEILING)


def down(value: float, decimals: int = 3) -> str:
    """A number that is not above `value`."""
    return _fixed(value, decimals, ROUND_FLOOR)


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


def _fixed(value: float | Decimal, decimals: int, rounding: str) -> str:
    with localcontext(prec=EXACT):
        return f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), rounding) + 0:f}"


def _percent(share: float, rounding: str, decimals: int | None = None) -> str:
    with localcontext(prec=EXACT):
        value = Decimal(share) * 100
    if decimals is not None and value >= 1:
        return f"{_fixed(value, decimals, rounding)} %"
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
GAP = " … "


class Excerpt(NamedTuple):
    """The part of a text that is shown, and where the spans are in it."""

    text: str
    spans: tuple[Span, ...]


def excerpt(text: str, spans: Sequence[Span], width: int) -> Excerpt:
    """At most about `width` characters of the text: what is around the spans, gaps shown by dots."""
    spans = sorted(spans) or [(0, 0)]
    if len(text) <= width:
        return Excerpt(text, tuple(span for span in spans if span[1]))
    windows = _windows(text, spans, 0)
    for around in range(width, 0, -1):
        tried = _windows(text, spans, around)
        at_both_ends = tried[0][0] > 0 and tried[-1][1] < len(text)
        if sum(stop - start + len(GAP) for start, stop in tried) + at_both_ends <= width:
            windows = tried
            break
    shown, places = "" if windows[0][0] == 0 else GAP.lstrip(), []
    for start, stop in windows:
        shift = len(shown) - start
        places += [(a + shift, b + shift) for a, b in spans if start <= a and b <= stop and b]
        shown += text[start:stop] + ("" if stop == len(text) else GAP)
    return Excerpt(shown if windows[-1][1] == len(text) else shown.removesuffix(" "), tuple(places))


def around_blanks(text: str, width: int) -> str:
    """A text with blanks, cut down to the parts around them."""
    return excerpt(text, [match.span() for match in BLANK.finditer(text)], width).text


def _windows(text: str, spans: Sequence[Span], around: int) -> list[Span]:
    """Stretches of at most `around` characters to each side of the spans, ended at words, those that touch made one."""
    windows: list[Span] = []
    for start, stop in spans:
        left = max(0, start - around)
        if left:
            space = text.find(" ", left, start)
            left = space + 1 if space >= 0 else left
        right = min(len(text), stop + around)
        if right < len(text):
            space = text.rfind(" ", stop, right + 1)
            right = space if space >= 0 else right
        if windows and left <= windows[-1][1] + len(GAP):
            windows[-1] = (windows[-1][0], max(right, windows[-1][1]))
        else:
            windows.append((left, right))
    return windows
