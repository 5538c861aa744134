"""A long text cut down to the parts around its blanks: whole words, or residues of a text without spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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
