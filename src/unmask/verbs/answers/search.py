"""Options of a search over the whole vocabulary, and constraints on fillings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from annotated_types import Interval

from unmask.common.border.calls import settings
from unmask.common.border.marks import Only, Written

OF_SEARCH = Only(without=("candidates", "exact"))
"""Marks what makes `fill` search the whole vocabulary; candidates make it derive a table."""


@settings
class Search:
    """Search over the whole vocabulary, and constraints on fillings.

    Parameters:
        answers: Fillings to score beside the best, each with its rank and odds; several blanks
            have a word each, or parts with " / " between them.
        pieces: The most tokens of a [WORD].
        allow: The only words of a blank, such as 2=red,green.
        forbid: Words that no blank may take, whatever their case.
        passes: The most passes of the search [default: 1,000].
        mass: Search until this much probability is found, such as 0.5.

    >>> search = unmask.Search(forbid=["tea"])
    >>> unmask.fill("She drank a cup of [MASK].", search=search, top=1).completions[0].text
    'She drank a cup of coffee.'
    """

    answers: Annotated[Sequence[str | Sequence[str]] | None, OF_SEARCH] = None
    pieces: Annotated[int, Interval(ge=1, le=8)] = 3
    allow: Annotated[Mapping[int, Sequence[str]] | None, OF_SEARCH, Written("BLANK=WORDS")] = None
    forbid: Annotated[Sequence[str] | None, OF_SEARCH] = None
    passes: Annotated[Annotated[int, Interval(ge=1, le=10**7)] | None, OF_SEARCH] = None
    mass: Annotated[Annotated[float, Interval(gt=0, le=1)] | None, OF_SEARCH] = None
