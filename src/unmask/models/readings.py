"""Blanks of one token, of a whole word, or of several tokens, and the ways to read a text that has them.

    [MASK]       one token
    [WORD]       one whole word of 1 to `pieces` tokens, by the tokenizer's own marking (`unmask.models.words`)
    [GAP:2-5]    any two to five tokens; [GAP:3] any three

A reading fixes the number of tokens of every blank: a text with as many masks. All readings of a text together are the
product of its blanks' lengths.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

from unmask.checks import whole
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.tokenizing import BLANK, TextTokenizer, refuse_hopeless
from unmask.options.answers import MOST_PIECES

logger = logging.getLogger(__name__)
WORD = "[WORD]"
MOST_READINGS = 64
LONGEST_GAP = 100_000
"""Tokens; no model takes more."""


@dataclass(frozen=True)
class Blank:
    """A blank of a text: its kind, how many tokens it may take, and whether it begins the text or follows a space."""

    kind: Literal["token", "word", "gap"]
    least: int
    most: int
    at_start: bool
    after_space: bool


@dataclass(frozen=True)
class Reading:
    """A text with `lengths[b]` masks for blank b."""

    cloze: Cloze
    lengths: tuple[int, ...]

    def parts(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """The tokens of each blank, from those of the whole block."""
        ends = [sum(self.lengths[: b + 1]) for b in range(len(self.lengths))]
        return [tuple(tokens[end - length : end]) for end, length in zip(ends, self.lengths, strict=True)]


def has_several_lengths(text: str) -> bool:
    """Whether a text has a [WORD] or a [GAP]."""
    return re.search(r"\[WORD\]|\[GAP\b", text) is not None


def read_blanks(words: TextTokenizer, text: str, pieces: int = 3) -> list[Blank]:
    """The blanks of a text, in order. `pieces`: the most tokens of a [WORD]."""
    pieces = whole("pieces", pieces, 1, MOST_PIECES)
    blanks = []
    for match in _blanks(words, text):
        before, after = text[: match.start()], text[match.end() :]
        kind: Literal["token", "word", "gap"] = "token"
        least, most = 1, 1
        if match[0] == WORD:
            kind, most = "word", pieces
            _refuse_touching(text, before, after)
        elif match[0].startswith("[GAP"):
            kind = "gap"
            least, most = _gap(match[0])
        blanks.append(Blank(kind, least, most, not before.strip(), before[-1:].isspace()))
    if not blanks:
        raise InputError("the text has no blank: put [MASK], [WORD] or [GAP:2-5] where something is to be filled in")
    return blanks


def readings_of(words: TextTokenizer, text: str, blanks: Sequence[Blank], max_length: int | None = None) -> list[Reading]:
    """The readings of a text, the shortest first; those too long for the model are left out, with a warning."""
    ways = prod(blank.most - blank.least + 1 for blank in blanks)
    if ways > MOST_READINGS:
        raise InputError(f"the lengths of the blanks combine in more than {MOST_READINGS} ways: narrow them")
    refuse_hopeless(text, max_length)
    fewest = sum(blank.least for blank in blanks)
    if fewest > (max_length or LONGEST_GAP):
        raise InputError(
            f"the blanks alone have {fewest:,} tokens at their shortest and the model takes {max_length or LONGEST_GAP}: "
            "shorten the gap"
        )
    every = [reading_with(words, text, n) for n in product(*[range(blank.least, blank.most + 1) for blank in blanks])]
    fitting = [reading for reading in every if max_length is None or len(reading.cloze.ids) <= max_length]
    if not fitting:
        raise InputError(
            f"with its blanks at their shortest the text has {len(every[0].cloze.ids)} tokens and the model takes {max_length}: "
            "shorten the text or the gap"
        )
    if len(fitting) < ways:
        logger.warning("%d of %d lengths of the blanks are too long for the model and were left out", ways - len(fitting), ways)
    return fitting


def reading_with(words: TextTokenizer, text: str, lengths: Sequence[int]) -> Reading:
    """The text with `lengths[b]` masks for blank b."""
    places = [match.span() for match in _blanks(words, text)]
    starts, stops = [0, *(stop for _, stop in places)], [*(start for start, _ in places), len(text)]
    around = [text[start:stop] for start, stop in zip(starts, stops, strict=True)]
    masks = [*(BLANK * length for length in lengths), ""]
    ids = words.encode("".join(part + mask for part, mask in zip(around, masks, strict=True)))
    return Reading(Cloze(tuple(ids), tuple(t for t, token in enumerate(ids) if token == words.mask_id)), tuple(lengths))


def _blanks(words: TextTokenizer, text: str) -> list[re.Match[str]]:
    mask = re.escape(words.tokenizer.mask_token)
    return list(re.finditer(rf"\[MASK\]|{mask}|\[WORD\]|\[GAP\b[^\]]*\]", text))


def _gap(written: str) -> tuple[int, int]:
    match = re.fullmatch(r"\[GAP:\s*(\d+)\s*(?:-\s*(\d+)\s*)?\]", written)
    if match and max(len(digits or "") for digits in match.groups()) > len(str(LONGEST_GAP)):
        raise InputError(f"the gap {written[:30]}... is too long: give at most {LONGEST_GAP:,} tokens")
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most:
        raise InputError(f"the gap {written} is not understood: write [GAP:2-5] for two to five tokens, or [GAP:3] for three")
    return least, most


def _refuse_touching(text: str, before: str, after: str) -> None:
    """A word has nothing of a word right beside it; scripts without spaces aside."""
    for beside in (before[-1:], after[:1]):
        if beside.isalnum() and unicodedata.east_asian_width(beside) not in "WF":
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise InputError(f"[WORD] touches {beside!r} in {shown!r}, and is a whole word: put a space between, or use [MASK]")
