"""Places as a person counts them: from 1, in one grammar for every verb.

24,30-33   place 24, and places 30 to 33
all        every place
[24, 30]   in Python, and in JSON
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from unmask.common.checks import shown
from unmask.common.errors import InputError

Places: TypeAlias = str | Sequence[int]
ALL = "all"


def counted_places(places: Places, count: int, having: str, argument: str) -> list[int]:
    """The places that are named, from 1 to `count`, each once, in the order of their names.

    having     what has them, for errors: "the sequence has residues"
    argument   the name of the argument that they are from
    """
    if isinstance(places, str):
        named = _places_in_text(places, count, having, argument)
    else:
        named = list(places)
    if not named:
        raise InputError("is empty", argument=argument, use="name one place or more")
    for place in named:
        if not 1 <= place <= count:
            raise _out_of_range(shown(place), count, having, argument)
    if len(set(named)) < len(named):
        raise InputError(
            f"{shown(named)} names a place twice", argument=argument, use="name each once"
        )
    return named


def _places_in_text(text: str, count: int, having: str, argument: str) -> list[int]:
    """The places of "24,30-33" or "all"."""
    if text.strip() == ALL:
        return list(range(1, count + 1))
    places: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            last = first
        try:
            span = range(int(first), int(last) + 1)
        except ValueError:
            raise InputError(
                f"{shown(text)} is not understood",
                argument=argument,
                use="give places such as 24,30-33, or all",
            ) from None
        # Before the places are listed: 1-999999999 would fill the memory.
        if len(span) > count or len(span) == 0:
            raise _out_of_range(shown(text), count, having, argument)
        places += span
    return places


def _out_of_range(places: str, count: int, having: str, argument: str) -> InputError:
    return InputError(f"{places} is out of range", argument=argument, use=f"{having} 1 to {count}")
