"""Fillings of the blanks: those that were found, and those that a user names to be scored.

`complete` gives the text with its blanks filled, where the tokens are in it, and how probable it is. An answer that a user names
is read in tokens: one part per blank, split as the tokenizer does, never cut.

    one blank                 the answer as a whole
    k blanks                  k words with spaces between them, or k parts with " / " between them
    k blanks side by side     also words that make k tokens together

A [MASK] whose word has several tokens is scored with as many masks. A [WORD] or [GAP] takes what its lengths allow.

Constraints are allowed and forbidden words, a pattern, and tokens other than those of the text (`FilledBlanks`). They only leave
fillings out: those that remain keep their probability over the whole vocabulary. A named answer that they leave out is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, floor
from typing import TYPE_CHECKING, ClassVar, NoReturn

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.answers.search import Search
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import Blank, TextReading, WordMarks
from unmask.results import Result

if TYPE_CHECKING:
    import pandas


class RuleName(str):
    """The rule of a search. There is no table of its joint, so what a `Joint` can do is refused with what to do instead."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a search over the whole vocabulary has no table of the joint, so no {name}: give candidates to fill"
        )


@dataclass(frozen=True)
class ReadingSeen:
    """A number of tokens per blank: its weight, and the probability of the fillings found that have it."""

    lengths: tuple[int, ...]
    weight: float
    mass: float


@dataclass(frozen=True)
class Completion(Result):
    """One filling of the blanks: its tokens, the whole text, and its log-probability under the joint and the product.

    Both are given that every blank lies in its candidate set.

    tokens             one for each blank
    text               the whole text, filled
    log_prob           log-probability under the joint, in nats
    product_log_prob   the same under the product of independent blanks
    spans              where the tokens are in `text`: start and end, in characters
    is_gold            whether these are the tokens that stood in the blanks, or the targets
    ids                the tokens as numbers

    >>> unmask.fill("She drank a cup of [MASK].").completions[0].tokens
    ('tea',)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("tokens", "text", "gold=is_gold", "log_prob", "product_log_prob")

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]
    is_gold: bool = False
    ids: tuple[int, ...] = ()


def completions_frame(completions: Sequence[Completion], filled: str, *numbers: str) -> pandas.DataFrame:
    """One row per completion: its text, a column per blank with what fills it (the attribute `filled`), its numbers, gold."""
    import pandas

    rows = [
        {"text": one.text}
        | {f"blank_{t + 1}": part for t, part in enumerate(getattr(one, filled))}
        | {name: getattr(one, name) for name in numbers}
        | {"gold": one.is_gold}
        for one in completions
    ]
    return pandas.DataFrame(rows)


def complete(model: MaskedLM, cloze: Cloze, values: Sequence[int], log_prob: float, product_log_prob: float) -> Completion:
    """The text with `values` in its blanks, and where they are in it."""
    ids = cloze.filled(values)
    text = model.text(ids)
    spans = []
    for position in cloze.block:
        start, stop = len(model.text(ids[:position])), len(model.text(ids[: position + 1]))
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        spans.append((start, stop))
    tokens = tuple(model.token(value) for value in values)
    return Completion(tokens, text, log_prob, product_log_prob, tuple(spans), tuple(values) == cloze.gold, tuple(values))


@dataclass(frozen=True)
class GivenAnswer:
    """An answer as the user wrote it, and the tokens of each blank."""

    answer: str
    parts: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(part) for part in self.parts)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(i for part in self.parts for i in part)


@dataclass(frozen=True)
class ScoredAnswer(Result):
    """A given answer's probability among all fillings of the text.

    rank     the lowest and the highest place that it can have among all fillings that the constraints allow; None where it
             has more tokens than the blanks, and so does not fill the text as written, and where orders are sampled
    odds     its probability over that of the most probable answer given
    """

    answer: str
    tokens: tuple[str, ...]
    text: str
    log_prob: float
    standard_error: float
    rank: tuple[int, int] | None
    odds: float = 1.0


def read_answer(model: MaskedLM, blanks: Sequence[Blank], answer: str) -> GivenAnswer:
    """The tokens of an answer, blank by blank."""
    if not answer.strip():
        raise InputError(f"the answer {answer!r} is empty: give what fills the blanks")
    parts = _parts(model, blanks, answer)
    for b, (blank, ids) in enumerate(zip(blanks, parts, strict=True)):
        if blank.kind != "token" and not blank.least <= len(ids) <= blank.most:
            what = "use a higher pieces" if blank.kind == "word" else "widen the gap"
            raise InputError(
                f"the answer {answer!r} has {len(ids)} tokens {model.decode(ids)} at blank {b + 1}, "
                f"which takes {blank.least} to {blank.most}: {what}"
            )
    return GivenAnswer(answer, tuple(tuple(ids) for ids in parts))


def _parts(model: MaskedLM, blanks: Sequence[Blank], answer: str) -> list[list[int]]:
    def encoded(word: str, blank: Blank) -> list[int]:
        return model.words.encode_word(word, blank.at_start, blank.after_space)

    written = [part.strip() for part in answer.split("/")] if "/" in answer else [answer] if len(blanks) == 1 else answer.split()
    if len(written) == len(blanks) and all(written):
        for blank, part in zip(blanks, written, strict=True):
            if blank.kind == "word" and len(part.split()) > 1:
                raise InputError(
                    f"{part!r} of the answer {answer!r} is {len(part.split())} words, and [WORD] takes one: "
                    "put commas between answers, or use [GAP:2-5]"
                )
        return [encoded(part, blank) for blank, part in zip(blanks, written, strict=True)]
    together = [i for n, word in enumerate(answer.split()) for i in encoded(word, blanks[min(n, len(blanks) - 1)])]
    if all(blank.kind == "token" for blank in blanks) and len(together) == len(blanks) and "/" not in answer:
        return [[i] for i in together]
    raise InputError(
        f"the answer {answer!r} has {len(written)} parts for {len(blanks)} blanks: one word per blank, or / between parts"
    )


@dataclass(frozen=True)
class Known:
    """Bounds of a filling's log-probability, and whether spellings that were not found may add to it."""

    low: float
    high: float
    grows: bool = False


def rank_bounds(mine: Known, others: Sequence[Known], bound: float, left: float, fillings: int) -> tuple[int, int]:
    """The lowest and the highest place of a filling of which everything is known, among all `fillings`.

    bound   no filling that was not found has more; of words it says nothing (1)
    left    the mass that was not found. Fillings above `mine` that were not found have at least exp(mine.low) of it each; one
            that grows has at least what it lacks. So no more of them are above than can be paid for, the cheapest first.
    """
    first = 1 + sum(other.low > mine.high for other in others)
    last = 1 + sum(other.high > mine.low for other in others)
    price = exp(mine.low)
    if price == 0:
        return first, fillings
    lacking = sorted(price - exp(other.high) for other in others if other.grows and other.high <= mine.low)
    for cost in lacking:
        if cost > left:
            break
        left, last = left - cost, last + 1
    if bound > price:
        last += floor(min(left / price, fillings))
    return first, min(last, fillings)


def with_odds(answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
    """The answers, best first, with their odds against the best."""
    ranked = sorted(answers, key=lambda answer: -answer.log_prob)
    best = ranked[0].log_prob
    return [replace(answer, odds=1.0 if answer.log_prob == best else exp(answer.log_prob - best)) for answer in ranked]


class FilledBlanks:
    """The blanks of a text under constraints: what their tokens spell, which tokens they may take, which fillings pass."""

    def __init__(self, model: MaskedLM, blanks: Sequence[Blank], readings: Sequence[TextReading], search: Search) -> None:
        self.model, self.blanks, self.readings, self.differ = model, blanks, readings, search.differ
        if not all(word.strip() for word in search.forbid or ()):
            raise InputError(f"forbid {list(search.forbid or ())} has an empty word: name the words, or leave it out")
        self.forbidden = {word.strip().casefold() for word in search.forbid or ()}
        allow, match = search.allow or {}, {0: search.match} if isinstance(search.match, str) else search.match or {}
        for name, numbers in (("allow", allow), ("match", [n for n in match if n != 0])):
            for number in numbers:
                if not 1 <= number <= len(blanks):
                    raise InputError(f"{name} names blank {number}, and the text has {len(blanks)}: number them from 1")
        every = {b: match[0] for b in range(len(blanks)) if 0 in match}
        named = {b - 1: pattern for b, pattern in match.items() if b != 0}
        self.patterns = {b: _compiled(pattern) for b, pattern in (every | named).items()}
        self.allowed_ids = {b - 1: self._allowed_ids(b - 1, words) for b, words in allow.items()}
        if search.differ and readings[0].cloze.gold is None:
            raise InputError("differ was given, and what stood in the blanks is not known: give a whole text and positions")

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
        return all(self.blanks[b].kind == "token" or not self._broken(b, ids) for b, ids in enumerate(read.parts(tokens)))

    def outside(self, parts: Sequence[tuple[int, ...]]) -> str | None:
        """The constraint that a filling with these tokens at its blanks breaks, in words; None if it breaks none."""
        gold = self.readings[0].cloze.gold
        if self.differ and tuple(i for ids in parts for i in ids) == gold:
            return "is what stood in the blanks, which differ leaves out"
        for b, ids in enumerate(parts):
            if why := self._broken(b, ids):
                return f"has {(self.spelled(b, ids) or ' '.join(self.model.decode(ids)))!r} at blank {b + 1}, which {why}"
        return None

    @property
    def words(self) -> int:
        """The number of blanks that take a whole word."""
        return sum(blank.kind == "word" for blank in self.blanks)

    def other_spellings(self, filling: Sequence[int]) -> list[tuple[int, ...]]:
        """The other fillings that spell the same, if the text has one [WORD]; else an empty list."""
        if self.words != 1:
            return []
        word = next(b for b, blank in enumerate(self.blanks) if blank.kind == "word")
        parts = self.readings[filling[0]].parts(filling[1:])
        number = {r.lengths: n for n, r in enumerate(self.readings)}
        others = []
        for split in self.marks.splits(parts[word], self.blanks[word].most):
            changed = [*parts[:word], split, *parts[word + 1 :]]
            n = number.get(tuple(len(part) for part in changed))
            if n is not None and split != parts[word]:
                others.append((n, *(i for part in changed for i in part)))
        return others

    def _broken(self, b: int, ids: tuple[int, ...]) -> str:
        """The constraint that the tokens of a blank break, in words; empty if they break none."""
        blank = self.blanks[b]
        if b in self.allowed_ids and ids not in self.allowed_ids[b]:
            return "allow does not name"
        if why := self._misspelled(b, self.spelled(b, ids)):
            return why
        if blank.kind == "word" and not self.marks.is_canonical(ids, blank.at_start, blank.after_space):
            return "is not a whole word of this tokenizer"
        return ""

    def _misspelled(self, b: int, text: str) -> str:
        if text.casefold() in self.forbidden:
            return "forbid leaves out"
        pattern = self.patterns.get(b)
        return "" if pattern is None or pattern.fullmatch(text) else f"does not match {pattern.pattern!r}"

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
            passing[[i for i in self.model.regular_ids if not self._misspelled(b, self.spelled(b, [i]))]] = True
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
