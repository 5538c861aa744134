"""Values that a user gives, checked in one place: every refusal says what was given, where, and what to do.

`name` is the argument's name in Python; the command line's option is the same word with dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import isfinite
from typing import Any, TypeVar, cast

from unmask.errors import InputError

Number = TypeVar("Number", int, float)
MOST_SHOWN, MOST_TOKENS = 80, 2**31 - 1
"""Characters of a value that a message shows, and the largest token id that tokenizers can look up."""


def shown(value: object) -> str:
    """A value as messages show it: in one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of whatever class the user gave
        text = f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def plain(value: Any) -> Any:
    """A value of NumPy, torch or pandas as Python's: a number, or a list; other values as they are."""
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """`value`, if it is one of the `known` names; else an error that suggests the nearest."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]}? Use" if near else "use"
    raise InputError(f"{name} {shown(value)} is unknown: {hint} one of {', '.join(names)}")


def whole(name: str, value: object, least: int, most: int) -> int:
    """`value` as an int, if it is a whole number from `least` to `most`; NumPy's integers are integers, booleans are not."""
    number = value if type(value) is int else plain(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{name} {shown(value)} is not a whole number: give one from {least} to {most}")
    if not least <= number <= most:
        raise InputError(f"{name} {shown(number)} is out of range: give a whole number from {least} to {most}")
    return number


def wholes(name: str, value: object) -> list[int]:
    """`value` as a list of ints, if it is a list, or an array, of whole numbers."""
    rows = plain(value)
    items = list(map(plain, rows)) if isinstance(rows, Iterable) and not isinstance(rows, str | bytes) else [None]
    if any(isinstance(one, bool) or not isinstance(one, int) for one in items):
        raise InputError(f"{name} {shown(value)} is not a list of whole numbers: give one such as [3, 4]")
    return cast("list[int]", items)


def real(name: str, value: object, least: float, most: float) -> float:
    """`value` as a float, if it is finite and from `least` to `most`."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InputError(f"{name} {shown(value)} is not a number: give one from {least:g} to {most:g}")
    if not least <= number <= most or not isfinite(number):
        raise InputError(f"{name} {shown(number)} is out of range: give a number from {least:g} to {most:g}")
    return float(number)


def numbers(name: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    """Numbers written with commas between them: "3,4" is [3, 4]."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} {text!r} is not understood: give numbers with commas between them, such as 3,4") from None
