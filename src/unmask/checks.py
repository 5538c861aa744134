"""Values that a user gives, checked in one place: every refusal says what was given, where, and what to do.

`name` is the argument's name in Python; the command line's option is the same word with dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from math import isfinite
from numbers import Integral, Real
from typing import TypeVar

from unmask.errors import InputError

Number = TypeVar("Number", int, float)


def one_of(name: str, given: object, known: Iterable[str]) -> str:
    """`given`, if it is one of the `known` names; else an error that suggests the nearest."""
    names = list(known)
    if isinstance(given, str) and given in names:
        return given
    near = get_close_matches(str(given), names, n=1)
    hint = f"did you mean {near[0]}? Use" if near else "use"
    raise InputError(f"{name} {given!r} is unknown: {hint} one of {', '.join(names)}")


def whole(name: str, given: object, least: int, most: int) -> int:
    """`given` as an int, if it is a whole number from `least` to `most`; NumPy's integers are integers, booleans are not."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InputError(f"{name} {given!r} is not a whole number: give one from {least} to {most}")
    value = int(given)
    if not least <= value <= most:
        raise InputError(f"{name} {value} is out of range: give a whole number from {least} to {most}")
    return value


def wholes(name: str, given: object) -> list[int]:
    """`given` as a list of ints, if it is a list, or an array, of whole numbers."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"{name} {given!r} is not a list of whole numbers: give one such as [3, 4]")
    for number in given:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise InputError(f"{name} {given!r} has {number!r}, which is no whole number: give a list such as [3, 4]")
    return [int(number) for number in given]


def real(name: str, given: object, least: float, most: float, above: bool = False) -> float:
    """`given` as a float, if it is finite and from `least` (or, with `above`, greater than it) to `most`."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InputError(f"{name} {given!r} is not a number: give one {_range(least, most, above)}")
    value = float(given)
    if not isfinite(value) or not (least < value if above else least <= value) or value > most:
        raise InputError(f"{name} {given} is out of range: give a number {_range(least, most, above)}")
    return value


UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def memory(name: str, given: object, available: int) -> int:
    """`given` in bytes: a number of them, a text such as "20GB", or a share of what is `available`: at most 1, without a unit."""
    amount: float | None = None
    unit = ""
    if isinstance(given, str):
        digits = given.strip().rstrip("BbKkMmGgTtIi ")
        unit = given.strip()[len(digits) :].strip().upper()
        with suppress(KeyError, ValueError):
            amount = float(digits) * UNITS[unit]
    elif not isinstance(given, bool) and isinstance(given, Real):
        amount = float(given)
    if amount is None or not isfinite(amount) or amount <= 0:
        raise InputError(f"{name} {given!r} is not understood: give bytes, such as 20GB or 500MB, or a share, such as 0.5")
    return max(1, int(amount * available if amount <= 1 and not unit else amount))


def numbers(name: str, given: str, kind: Callable[[str], Number]) -> list[Number]:
    """Numbers written with commas between them: "3,4" is [3, 4]."""
    try:
        return [kind(part) for part in given.split(",")]
    except ValueError:
        raise InputError(f"{name} {given!r} is not understood: give numbers with commas between them, such as 3,4") from None


def _range(least: float, most: float, above: bool) -> str:
    return f"{'above' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:g}"
