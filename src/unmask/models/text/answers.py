"""Answers that a user names for the blanks of a text, read in tokens: one part per blank, split
as the tokenizer does, never cut.

    one blank                 the answer as a whole, slashes included
    k blanks                  k words with spaces between them, or k parts with " / " or "/"
                              between them
    k blanks side by side     also words without a slash that make k tokens together

The number of parts decides: "and/or tea" has two parts as words, and two parts at its slash, so
it raises for two blanks. With spaces around it a slash always separates: "and/or / tea". In
Python an answer may be a list of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from unmask.common.errors import InputError
from unmask.models.text.blanks import Blank, TextReading
from unmask.models.text.text_tokenizer import TextTokenizer


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as the user wrote it, and the tokens of each blank."""

    answer: str
    parts: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens each blank has."""
        return tuple(len(part) for part in self.parts)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of all blanks, in order."""
        return tuple(chain.from_iterable(self.parts))


def read_answer(
    tokenizer: TextTokenizer,
    blanks: Sequence[Blank],
    readings: Sequence[TextReading],
    answer: str | Sequence[str],
) -> ReadAnswer:
    """The tokens of an answer, blank by blank; raises if a blank does not take that many.

    readings   all that the text has
    """
    shown = answer if isinstance(answer, str) else " / ".join(answer)
    if not "".join(answer).strip():
        raise InputError(f"the answer {answer!r} is empty: give what fills the blanks")
    parts = _parts(tokenizer, blanks, readings, answer)
    for number, (blank, ids) in enumerate(zip(blanks, parts, strict=True), 1):
        if blank.least <= len(ids) <= blank.most:
            continue
        wider = {
            "token": "use [WORD] or [GAP]",
            "word": f"write [WORD:1-{len(ids)}]",
            "gap": "widen the gap",
        }
        raise InputError(
            f"the answer {shown!r} has {len(ids)} tokens {tokenizer.tokens(ids)} at blank"
            f" {number}, which takes {blank.lengths_in_words}: {wider[blank.kind]}"
        )
    in_tokens = ReadAnswer(answer=shown, parts=tuple(tuple(ids) for ids in parts))
    if in_tokens.lengths not in {reading.lengths for reading in readings}:
        raise InputError(
            f"with the answer {shown!r} the text is longer than the model takes: shorten the text"
        )
    return in_tokens


def _parts(
    tokenizer: TextTokenizer,
    blanks: Sequence[Blank],
    readings: Sequence[TextReading],
    answer: str | Sequence[str],
) -> list[list[int]]:
    """The tokens of each part of an answer, one part per blank."""
    written = _written_parts(answer, len(blanks))
    if written is not None:
        _refuse_several_words(blanks, written, answer)
        return [
            _encoded(tokenizer, part, blank) for blank, part in zip(blanks, written, strict=True)
        ]
    if isinstance(answer, str) and "/" not in answer and _are_side_by_side(blanks, readings):
        together: list[int] = []
        for place, word in enumerate(answer.split()):
            blank = blanks[min(place, len(blanks) - 1)]  # there may be more words than blanks
            together += _encoded(tokenizer, word, blank)
        if len(together) == len(blanks):
            return [[i] for i in together]
    raise _wrong_number(answer, len(blanks))


def _encoded(tokenizer: TextTokenizer, word: str, blank: Blank) -> list[int]:
    return tokenizer.encode_word(word, blank.at_start, blank.after_space)


def _refuse_several_words(
    blanks: Sequence[Blank], parts: Sequence[str], answer: str | Sequence[str]
) -> None:
    """Raise if a part has several words and its blank is one word."""
    for blank, part in zip(blanks, parts, strict=True):
        words = len(part.split())
        if blank.kind == "word" and words > 1:
            raise InputError(
                f"{part!r} of the answer {answer!r} is {words} words, and [WORD] takes one: put"
                " commas between answers, or use [GAP:2-5]"
            )


def _wrong_number(answer: str | Sequence[str], blanks: int) -> InputError:
    """The error about an answer that has not one part per blank."""
    at_slashes = answer.split("/") if isinstance(answer, str) else answer
    if not all(part.strip() for part in at_slashes):
        return InputError(f"the answer {answer!r} has an empty part: give what fills each blank")
    ways = _ways_to_part(answer) if isinstance(answer, str) else [answer]
    parts = max(len(way) for way in ways)
    of_answer = f"{parts} part{'s' * (parts != 1)}"
    of_text = f"{blanks} blank{'s' * (blanks != 1)}"
    return InputError(
        f"the answer {answer!r} has {of_answer} for {of_text}: give one word per blank, or parts"
        " with ' / ' between them"
    )


def _written_parts(answer: str | Sequence[str], blanks: int) -> list[str] | None:
    """The parts of an answer, one per blank, as they are written; None if their number is not
    that of the blanks.

    Raises if the answer has this many parts in two ways.
    """
    if not isinstance(answer, str):
        parts = [part.strip() for part in answer]
        return parts if len(parts) == blanks and all(parts) else None
    if blanks == 1:
        return [answer]
    ways = [parts for parts in _ways_to_part(answer) if len(parts) == blanks and all(parts)]
    if not ways:
        return None
    if any(way != ways[0] for way in ways):
        at_slashes, at_spaces = (" / ".join(way) for way in ways)
        raise InputError(
            f"the answer {answer!r} has {blanks} parts at its slashes and {blanks} at its spaces: "
            f"write {at_slashes!r} or {at_spaces!r}"
        )
    return ways[0]


def _ways_to_part(answer: str) -> list[list[str]]:
    """The ways to read an answer as parts: at every slash; at slashes between spaces, or, if
    there are none, at spaces.
    """
    at_slashes = [part.strip() for part in answer.split("/")]
    at_spaced_slashes = re.split(r"\s+/\s+", answer.strip())
    if len(at_spaced_slashes) > 1:
        return [at_slashes, at_spaced_slashes]
    return [at_slashes, answer.split()]


def _are_side_by_side(blanks: Sequence[Blank], readings: Sequence[TextReading]) -> bool:
    """Whether all blanks are single tokens, and nothing stands between them."""
    if any(blank.kind != "token" for blank in blanks):
        return False
    block = readings[0].cloze.block
    first = block[0]
    return list(block) == list(range(first, first + len(block)))
