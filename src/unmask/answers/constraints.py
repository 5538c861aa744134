"""Constraints on fillings: allowed and forbidden words, a pattern, tokens other than those of the text.

A constraint only leaves fillings out. Those that remain keep their probability over the whole vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import Blank, TextReading
from unmask.models.text.words import WordMarks
from unmask.options.answers import FillOptions


class FilledBlanks:
    """The blanks of a text under constraints: what their tokens spell, which tokens they may take, which fillings pass."""

    def __init__(self, model: MaskedLM, blanks: Sequence[Blank], readings: Sequence[TextReading], options: FillOptions) -> None:
        self.model, self.blanks, self.readings, self.differ = model, blanks, readings, options.differ
        self.forbidden = {word.strip().casefold() for word in options.forbid or ()}
        allow, match = options.allow or {}, options.match or {}
        for name, numbers in (("allow", allow), ("match", [n for n in match if n != 0])):
            for number in numbers:
                if not 1 <= number <= len(blanks):
                    raise InputError(f"{name} names blank {number}, and the text has {len(blanks)}: number them from 1")
        every = {b: match[0] for b in range(len(blanks)) if 0 in match}
        named = {b - 1: pattern for b, pattern in match.items() if b != 0}
        self.patterns = {b: _compiled(pattern) for b, pattern in (every | named).items()}
        self.allowed_ids = {b - 1: self._allowed_ids(b - 1, words) for b, words in allow.items()}
        if options.differ and readings[0].cloze.gold is None:
            raise InputError("differ was asked for, and what stood in the blanks is not known: give a whole text and positions")

    @cached_property
    def marks(self) -> WordMarks:
        """Raises where the tokenizer does not mark words."""
        return WordMarks(self.model.words, self.model.vocab_size)

    def spelled(self, blank: int, ids: Sequence[int]) -> str:
        """The text that the tokens of a blank spell; "" if those of a [WORD] are not a word."""
        if self.blanks[blank].kind == "word":
            return self.marks.spelled(ids)
        if len(ids) == 1:
            return self.model.token(ids[0]).strip()
        return self.model.text(ids)

    def allowed(self, reading: TextReading) -> tuple[Bool[Tensor, " V"] | None, ...] | None:
        """For each site of a reading the tokens that its blank may take there; None for all."""
        masks = [self._mask(b, length, piece) for b, length in enumerate(reading.lengths) for piece in range(length)]
        return None if all(mask is None for mask in masks) else tuple(masks)

    def accept(self, reading: int, tokens: Sequence[int]) -> bool:
        """Checks that need the whole filling, not single tokens."""
        read = self.readings[reading]
        if self.differ and tuple(tokens) == read.cloze.gold:
            return False
        return all(self._accept_blank(b, ids) for b, ids in enumerate(read.parts(tokens)))

    def outside(self, parts: Sequence[tuple[int, ...]]) -> str | None:
        """The constraint that a filling with these tokens at its blanks breaks, in words; None if it breaks none."""
        gold = self.readings[0].cloze.gold
        if self.differ and tuple(i for ids in parts for i in ids) == gold:
            return "is what stood in the blanks, which differ leaves out"
        for b, ids in enumerate(parts):
            text = self.spelled(b, ids)
            named = f"has {(text or ' '.join(self.model.decode(ids)))!r} at blank {b + 1}, which"
            if b in self.allowed_ids and ids not in self.allowed_ids[b]:
                return f"{named} allow does not name"
            if text.casefold() in self.forbidden:
                return f"{named} forbid leaves out"
            if b in self.patterns and self.patterns[b].fullmatch(text) is None:
                return f"{named} does not match {self.patterns[b].pattern!r}"
            if not self._accept_blank(b, ids):
                return f"{named} is not a whole word of this tokenizer"
        return None

    @property
    def words(self) -> int:
        """The number of blanks that take a whole word."""
        return sum(blank.kind == "word" for blank in self.blanks)

    def other_spellings(self, filling: Sequence[int]) -> list[tuple[int, ...]]:
        """The other fillings that spell the same, if the text has one [WORD]; else an empty list."""
        words = [b for b, blank in enumerate(self.blanks) if blank.kind == "word"]
        if len(words) != 1:
            return []
        reading = self.readings[filling[0]]
        parts = reading.parts(filling[1:])
        number = {r.lengths: n for n, r in enumerate(self.readings)}
        others = []
        for split in self.marks.splits(parts[words[0]], self.blanks[words[0]].most):
            changed = [*parts[: words[0]], split, *parts[words[0] + 1 :]]
            n = number.get(tuple(len(part) for part in changed))
            if n is not None and split != parts[words[0]]:
                others.append((n, *(i for part in changed for i in part)))
        return others

    def _accept_blank(self, b: int, ids: tuple[int, ...]) -> bool:
        blank = self.blanks[b]
        if blank.kind == "token":
            return True
        if blank.kind == "word" and not self.marks.is_canonical(ids, blank.at_start, blank.after_space):
            return False
        if b in self.allowed_ids and ids not in self.allowed_ids[b]:
            return False
        return self._text_passes(b, self.spelled(b, ids))

    def _text_passes(self, b: int, text: str) -> bool:
        pattern = self.patterns.get(b)
        return text.casefold() not in self.forbidden and (pattern is None or pattern.fullmatch(text) is not None)

    def _mask(self, b: int, length: int, piece: int) -> Bool[Tensor, " V"] | None:
        blank = self.blanks[b]
        mask: Tensor | None = None
        if blank.kind == "word":
            mask = self.marks.continuing if piece else self.marks.beginning(blank.at_start, blank.after_space)
        if b in self.allowed_ids:
            named = torch.zeros(self.model.vocab_size, dtype=torch.bool)
            named[[ids[piece] for ids in self.allowed_ids[b] if len(ids) == length]] = True
            mask = named if mask is None else mask & named
        if length == 1 and (self.forbidden or b in self.patterns):
            passing = torch.zeros(self.model.vocab_size, dtype=torch.bool)
            passing[[i for i in self.model.regular_ids if self._text_passes(b, self.spelled(b, [i]))]] = True
            mask = passing if mask is None else mask & passing
            if blank.most == 1 and not bool(mask.any()):
                raise InputError(
                    f"no token of the model passes the constraints at blank {b + 1}"
                    + (f" (match {self.patterns[b].pattern!r})" if b in self.patterns else "")
                    + ": loosen them"
                )
        return mask

    def _allowed_ids(self, b: int, words: Sequence[str]) -> set[tuple[int, ...]]:
        blank = self.blanks[b]
        found = {tuple(self.model.words.encode_word(word, blank.at_start, blank.after_space)) for word in words}
        fitting = {ids for ids in found if blank.least <= len(ids) <= blank.most}
        if not words:
            raise InputError(f"allow at blank {b + 1} names no word: name one or more")
        for ids in sorted(found - fitting):
            raise InputError(
                f"allow at blank {b + 1}: {self.model.decode(ids)} is {len(ids)} tokens, and the blank takes "
                f"{blank.least} to {blank.most}: use [WORD] or [GAP], or more pieces"
            )
        return found


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"match {pattern!r} is not a regular expression ({error}): correct it") from None
