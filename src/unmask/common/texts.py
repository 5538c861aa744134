"""One function for each of several texts, whose errors name the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from unmask.common.errors import BadTexts, InputError

Answer = TypeVar("Answer")


def for_each(texts: Sequence[str], read: Callable[[str], Answer]) -> list[Answer]:
    """`read` of every text.

    `read` raises InputError for a text that it refuses. All texts are read before BadTexts names
    those that were refused. The error of a single text is raised as it is.
    """
    if not texts:
        raise InputError("no text was given: give one, or a list of texts")
    answers: list[Answer] = []
    reasons: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            answers.append(read(text))
        except InputError as error:
            if len(texts) == 1:
                raise
            reasons[place] = str(error)
    if reasons:
        first = min(reasons)
        raise BadTexts(f"text {first + 1} of {len(texts)}: {reasons[first]}", reasons)
    return answers
