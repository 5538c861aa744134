"""Answers that a user names, in tokens: one part per blank, split as the tokenizer does, never cut.

    one blank                 the answer as a whole
    k blanks                  k words with spaces between them, or k parts with " / " between them
    k blanks side by side     also words that make k tokens together

A [MASK] whose word is of several tokens is scored with as many masks. A [WORD] or [GAP] takes what its lengths allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, floor, log

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.readings import Blank


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
class ScoredAnswer:
    """A given answer's probability among all fillings of the text.

    rank     the lowest and the highest place that it can have among all fillings; None where it has more tokens than the
             blanks, and so is no filling of the text as written
    odds     its probability over that of the most probable answer given
    """

    answer: str
    tokens: tuple[str, ...]
    text: str
    log_prob: float
    standard_error: float
    rank: tuple[int, int] | None
    odds: float = 1.0

    def to_dict(self) -> dict[str, object]:
        return {**vars(self), "tokens": list(self.tokens), "rank": None if self.rank is None else list(self.rank)}


def read_answer(model: MaskedLM, blanks: Sequence[Blank], answer: str) -> GivenAnswer:
    """The tokens of an answer, blank by blank."""
    if not isinstance(answer, str) or not answer.strip():
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
                    f"{part!r} of the answer {answer!r} is {len(part.split())} words, and [WORD] takes one: use [GAP:2-5]"
                )
        return [encoded(part, blank) for blank, part in zip(blanks, written, strict=True)]
    together = [i for n, word in enumerate(answer.split()) for i in encoded(word, blanks[min(n, len(blanks) - 1)])]
    if all(blank.kind == "token" for blank in blanks) and len(together) == len(blanks) and "/" not in answer:
        return [[i] for i in together]
    raise InputError(
        f"the answer {answer!r} has {len(written)} parts for {len(blanks)} blanks: one word per blank, or / between parts"
    )


def rank_bounds(log_prob: float, found: Sequence[float], bound: float, exact: bool) -> tuple[int, int]:
    """The lowest and the highest place of a filling, given the log-probabilities `found` of the others and a bound on the rest.

    Fillings that are not found and lie above it share what mass is left, so there are at most so many of them.
    """
    above = sum(other > log_prob for other in found)
    if exact and exp(log_prob) >= bound:
        return above + 1, above + 1
    left = max(0.0, 1 - sum(map(exp, found)) - exp(log_prob))
    return above + 1, above + 1 + floor(left * exp(-log_prob) if log_prob > log(1e-300) else 10**300)


def with_odds(answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
    """The answers, best first, with their odds against the best."""
    ranked = sorted(answers, key=lambda answer: -answer.log_prob)
    return [replace(answer, odds=exp(answer.log_prob - ranked[0].log_prob)) for answer in ranked]
