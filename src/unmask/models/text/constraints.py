"""Constraints on what fills the blanks of a text: words allowed, forbidden and given.

A filling passes if at each blank

1. its tokens are one of the blank's allowed words, if the blank has any, or the given one,
2. they do not spell a forbidden word, whatever its case,
3. for a [WORD], they are one whole word, spelled as the tokenizer spells it.

Constraints leave fillings out. They change no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.text.blanks import Blank, TextReading
from unmask.models.text.word_marks import WordMarks

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.text.answers import ReadAnswer


@dataclass(frozen=True)
class NamedWords:
    """The words that a user names; blanks are numbered from 1.

    allow    the only words of a blank
    forbid   words that no blank may take
    given    the word that stands in a blank
    """

    allow: Mapping[int, Sequence[str]]
    forbid: Sequence[str]
    given: Mapping[int, str]


class Constraints:
    """The constraints on the blanks of one text.

    blanks      the text's
    given_ids   of each given blank, counted from 0, its token
    """

    def __init__(self, model: MaskedLM, blanks: Sequence[Blank], words: NamedWords) -> None:
        self.model = model
        self.blanks = blanks
        if not all(word.strip() for word in words.forbid):
            raise InputError(
                f"{list(words.forbid)} has an empty word",
                argument="forbid",
                use="name the words, or leave it out",
            )
        self._forbidden = {word.strip().casefold() for word in words.forbid}
        self._refuse_no_blank("allow", words.allow)
        self._refuse_no_blank("given", words.given)
        for number in words.given:
            if number in words.allow:
                raise InputError(
                    f"names blank {number}, and given says what stands there",
                    argument="allow",
                    use="leave one of the two out",
                )
        self._allowed_ids: dict[int, set[tuple[int, ...]]] = {
            number - 1: self._ids_allowed_at(number, allowed)
            for number, allowed in words.allow.items()
        }
        self.given_ids: dict[int, int] = {
            number - 1: self._id_given_at(number, word) for number, word in words.given.items()
        }
        if self.given_ids and len(self.given_ids) == len(blanks):
            raise InputError(
                "says what stands in every blank", argument="given", use="leave one open"
            )

    def _refuse_no_blank(self, argument: str, of_blanks: Mapping[int, object]) -> None:
        """Raise if an argument names a blank that the text does not have."""
        for number in of_blanks:
            if not 1 <= number <= len(self.blanks):
                raise InputError(
                    f"names blank {number}, and the text has {len(self.blanks)}",
                    argument=argument,
                    use="number them from 1",
                )

    def _ids_allowed_at(self, number: int, words: Sequence[str]) -> set[tuple[int, ...]]:
        """The tokens of each word that is allowed at the blank of this number."""
        if not words:
            raise InputError(
                f"names no word at blank {number}", argument="allow", use="name one or more"
            )
        blank = self.blanks[number - 1]
        spelled = {self._encoded(word, blank) for word in words}
        for ids in sorted(spelled):
            if not blank.least <= len(ids) <= blank.most:
                raise InputError(
                    f"at blank {number}: {self.model.words.tokens(ids)} is {len(ids)} tokens, and"
                    f" the blank takes {blank.lengths_in_words}",
                    argument="allow",
                    use=f"write [WORD:1-{len(ids)}] or [GAP:{len(ids)}] there",
                )
        return spelled

    def _id_given_at(self, number: int, word: str) -> int:
        """The token of the word that is given at the blank of this number."""
        if not word.strip():
            raise InputError(f"names no word at blank {number}", argument="given", use="name one")
        ids = self._encoded(word, self.blanks[number - 1])
        if len(ids) != 1:
            raise InputError(
                f"at blank {number}: {self.model.words.tokens(ids)} is {len(ids)} tokens, and the"
                " blank takes one",
                argument="given",
                use="name another, or write the word into the text",
            )
        return ids[0]

    def _encoded(self, word: str, blank: Blank) -> tuple[int, ...]:
        return tuple(self.model.words.encode_word(word, blank.at_start, blank.after_space))

    @cached_property
    def marks(self) -> WordMarks:
        """Raises where the tokenizer does not mark words."""
        return WordMarks(self.model.words, self.model.vocab_size)

    # Whole fillings.

    def spelled(self, b: int, ids: Sequence[int]) -> str:
        """The text that the tokens of blank b spell; "" if those of a [WORD] are not a word."""
        if self.blanks[b].kind == "word":
            return self.marks.spelled(ids)
        if len(ids) == 1:
            return self.model.words.token(ids[0]).strip()
        return self.model.words.text(ids)

    def accept(self, reading: TextReading, tokens: Sequence[int]) -> bool:
        """Checks that need the whole filling, not single tokens."""
        for b, ids in enumerate(reading.parts(tokens)):
            if self.blanks[b].kind != "token" and self._broken_at(b, ids):
                return False
        return True

    def broken(self, parts: Sequence[tuple[int, ...]]) -> str | None:
        """The constraint that a filling with these tokens at its blanks breaks, in words; None
        if it breaks none.
        """
        for b, ids in enumerate(parts):
            why = self._broken_at(b, ids)
            if why:
                spelled = self.spelled(b, ids) or " ".join(self.model.words.tokens(ids))
                return f"has {spelled!r} at blank {b + 1}, which {why}"
        return None

    def refuse_impossible(self, answer: ReadAnswer, support: Tensor) -> None:
        """Raise for an answer with a token outside the support, or one that a constraint leaves
        out.
        """
        in_support = set(support.tolist())
        for token in answer.tokens:
            if token not in in_support:
                raise InputError(
                    f"the answer {answer.answer!r} has {self.model.words.token(token)!r}, which is"
                    " not in the alphabet: add it, or choose another"
                )
        why = self.broken(answer.parts)
        if why:
            raise InputError(
                f"the answer {answer.answer!r} {why}: leave it out, or loosen the constraints"
            )

    def allows_tokens(self, tokens: Sequence[int], support: Tensor) -> bool:
        """Whether a filling with one token at each blank is in the support and breaks nothing."""
        is_in_support = set(tokens) <= set(support.tolist())
        return is_in_support and not self.broken([(token,) for token in tokens])

    def _broken_at(self, b: int, ids: tuple[int, ...]) -> str:
        """The constraint that the tokens of blank b break, in words; empty if they break none."""
        blank = self.blanks[b]
        if b in self.given_ids and ids != (self.given_ids[b],):
            return "given does not name"
        if b in self._allowed_ids and ids not in self._allowed_ids[b]:
            return "allow does not name"
        if self.spelled(b, ids).casefold() in self._forbidden:
            return "forbid leaves out"
        if blank.kind == "word":
            is_whole = self.marks.is_canonical(ids, blank.at_start, blank.after_space)
            if not is_whole:
                return "is not a whole word of this tokenizer"
        return ""

    # Single tokens.

    def allowed(self, reading: TextReading) -> tuple[Bool[Tensor, " V"] | None, ...] | None:
        """For each site of a reading the tokens that its blank may take there; None for all."""
        masks: list[Bool[Tensor, " V"] | None] = []
        for b, length in enumerate(reading.lengths):
            masks += [self._mask(b, length, piece) for piece in range(length)]
        return None if all(mask is None for mask in masks) else tuple(masks)

    def _mask(self, b: int, length: int, piece: int) -> Bool[Tensor, " V"] | None:
        """The tokens that may be piece number `piece` of the `length` tokens of blank b; None for
        all.
        """
        blank = self.blanks[b]
        masks: list[Bool[Tensor, " V"]] = []
        if blank.kind == "word" and piece > 0:
            masks.append(self.marks.continuing)
        elif blank.kind == "word":
            masks.append(self.marks.beginning(blank.at_start, blank.after_space))
        if b in self.given_ids:
            masks.append(self._only([self.given_ids[b]]))
        if b in self._allowed_ids:
            of_length = [ids for ids in self._allowed_ids[b] if len(ids) == length]
            masks.append(self._only([ids[piece] for ids in of_length]))
        if self._forbidden and length == 1:  # tokens of a longer part may stand in other words
            masks.append(self._only(self._not_forbidden(b)))
        if not masks:
            return None
        mask = torch.stack(masks).all(0)
        if self._forbidden and blank.most == 1 and not bool(mask.any()):
            raise InputError(
                f"no token of the model passes the constraints at blank {b + 1}: loosen them"
            )
        return mask

    def _not_forbidden(self, b: int) -> list[int]:
        """The regular tokens that do not spell a forbidden word at blank b."""
        return [
            i
            for i in self.model.regular_ids
            if self.spelled(b, [i]).casefold() not in self._forbidden
        ]

    def _only(self, ids: Sequence[int]) -> Bool[Tensor, " V"]:
        """A mask of the vocabulary that is true at these tokens."""
        mask = torch.zeros(self.model.vocab_size, dtype=torch.bool)
        mask[list(ids)] = True
        return mask

    def unfillable(self, reading: TextReading, support: Tensor) -> set[int]:
        """The blanks of a reading, counted from 0, with a site at which no token of the support
        passes.
        """
        masks = self.allowed(reading)
        if masks is None:
            return set()
        on_cpu = support.cpu()  # as the masks are
        found: set[int] = set()
        site = 0
        for b, length in enumerate(reading.lengths):
            for mask in masks[site : site + length]:
                if mask is not None and not bool(mask[on_cpu].any()):
                    found.add(b)
            site += length
        return found

    def fillable(self, readings: Sequence[TextReading], support: Tensor) -> list[TextReading]:
        """The readings in which a token of the support passes at every site; raises if there is
        none.
        """
        unfillable = [self.unfillable(reading, support) for reading in readings]
        found = [reading for reading, where in zip(readings, unfillable, strict=True) if not where]
        if found:
            return found
        in_every_reading = set.intersection(*unfillable)
        if not in_every_reading:  # the readings that could be filled are too long for the model
            raise InputError(
                "no filling within the constraints is as short as the model takes: loosen them, or"
                " shorten the text"
            )
        is_alphabet = len(support) < len(self.model.regular_ids)
        of_what = "alphabet" if is_alphabet else "model"
        raise InputError(
            f"no token of the {of_what} passes the constraints at blank"
            f" {min(in_every_reading) + 1}: loosen them"
        )
