"""A long text cut down to the parts around its blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence

Span = tuple[int, int]
"""The first character of a part of a text, and the one after its last."""
BLANK = re.compile(re.escape("[MASK]"))
GAP = "…"


def excerpt(text: str, spans: Sequence[Span], width: int) -> tuple[str, tuple[Span, ...]]:
    """At most about `width` characters of a text, those around the spans, with dots for gaps; and
    where the spans are in it.

    A text without spans is cut to its beginning. Every span is shown whole, with a character at
    least on both sides, so that many spans may take more.
    """
    spans = sorted(spans) or [(0, 0)]
    around = len(text)  # characters shown on both sides of a span
    if len(text) > width:
        of_spans = sum(stop - start for start, stop in spans)
        around = max(1, (width - of_spans) // (2 * len(spans)) - len(GAP))
    next_starts = [*(start for start, _ in spans[1:]), len(text)]
    shown = ""
    places: list[Span] = []
    end = 0  # the part of the text up to here is shown, or left out
    for (start, stop), next_start in zip(spans, next_starts, strict=True):
        left = max(end, start - around)
        right = min(next_start, stop + around)
        if left > end:
            shown += GAP
        shown += text[left:start]
        places.append((len(shown), len(shown) + stop - start))
        shown += text[start:right]
        end = right
    if end < len(text):
        shown += GAP
    of_own_spans = tuple(place for place in places if place[1] > 0)  # without the empty (0, 0)
    return shown, of_own_spans


def around_blanks(text: str, width: int) -> str:
    """A text with blanks, cut down to the parts around them."""
    blanks = [match.span() for match in BLANK.finditer(text)]
    shown, _ = excerpt(text, blanks, width)
    return shown
