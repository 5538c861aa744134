"""One function for each of several texts, whose errors name the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from unmask.common.errors import BadTexts, InputError

Answer = TypeVar("Answer")


def for_each(texts: Sequence[str], read: Callable[[str], Answer]) -> list[Answer]:
    """`read` of every text; an error says which texts it is about, if there are several."""
    if not texts:
        raise InputError("no text was given: give one, or a list of texts")
    answers, reasons = list[Answer](), dict[int, str]()
    for place, text in enumerate(texts):
        try:
            answers.append(read(text))
        except InputError as error:
            if len(texts) == 1:
                raise
            reasons[place] = str(error)
    if reasons:
        first, reason = next(iter(reasons.items()))
        raise BadTexts(f"text {first + 1} of {len(texts)}: {reason}", reasons)
    return answers
