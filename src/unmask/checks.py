"""Values that a user gives, checked in one place: every refusal says what was given, where, and what to do.

`name` is the argument's name in Python; the command line's option is the same word with dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, TypeVar

from unmask.errors import InputError

Number = TypeVar("Number", int, float)
MOST_SHOWN = 80
"""Characters of a value that a message shows."""
MOST_TOKENS = 2**31 - 1
"""The largest token id that tokenizers can look up."""


def shown(given: object) -> str:
    """A value as messages show it: in one line, cut where it is long."""
    try:
        text = " ".join(repr(given).split())
    except Exception:  # of whatever class the user gave
        text = f"a {type(given).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def as_int(given: Any) -> int | None:
    """A whole number of Python, NumPy or torch as an int; None for everything else, booleans included."""
    if type(given) is int:
        return given
    try:
        return None if isinstance(given, bool) or str(getattr(given, "dtype", "")).endswith("bool") else index(given)
    except (TypeError, ValueError, RuntimeError):
        return None


def as_number(given: Any) -> float | None:
    """A number of Python, NumPy or torch as one of Python; None for everything else, booleans included."""
    if (value := as_int(given)) is not None:
        return value
    if isinstance(given, bool):
        return None
    if isinstance(given, Real):
        return float(given)
    if getattr(given, "shape", None) == () and hasattr(given, "item"):
        value = given.item()
        return value if isinstance(value, float) else None
    return None


def one_of(name: str, given: object, known: Iterable[str]) -> str:
    """`given`, if it is one of the `known` names; else an error that suggests the nearest."""
    names = list(known)
    if isinstance(given, str) and given in names:
        return given
    near = get_close_matches(str(given), names, n=1)
    hint = f"did you mean {near[0]}? Use" if near else "use"
    raise InputError(f"{name} {shown(given)} is unknown: {hint} one of {', '.join(names)}")


def whole(name: str, given: object, least: int, most: int) -> int:
    """`given` as an int, if it is a whole number from `least` to `most`; NumPy's integers are integers, booleans are not."""
    value = as_int(given)
    if value is None:
        raise InputError(f"{name} {shown(given)} is not a whole number: give one from {least} to {most}")
    if not least <= value <= most:
        raise InputError(f"{name} {shown(value)} is out of range: give a whole number from {least} to {most}")
    return value


def wholes(name: str, given: object) -> list[int]:
    """`given` as a list of ints, if it is a list, or an array, of whole numbers."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or getattr(given, "shape", None) == ():
        raise InputError(f"{name} {shown(given)} is not a list of whole numbers: give one such as [3, 4]")
    found = []
    for number in given:
        value = as_int(number)
        if value is None:
            raise InputError(f"{name} {shown(given)} has {shown(number)}, which is not a whole number: give some such as [3, 4]")
        found.append(value)
    return found


def real(name: str, given: object, least: float, most: float, above: bool = False) -> float:
    """`given` as a float, if it is finite and from `least` (or, with `above`, greater than it) to `most`."""
    value = as_number(given)
    if value is None:
        raise InputError(f"{name} {shown(given)} is not a number: give one {_range(least, most, above)}")
    if not (least < value if above else least <= value) or not value <= most or not isfinite(value):
        raise InputError(f"{name} {shown(value)} is out of range: give a number {_range(least, most, above)}")
    return float(value)


UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MOST_BYTES = 2**60


def memory(name: str, given: object, available: int) -> int:
    """`given` in bytes: a number of them, a text such as "20GB", or a share of what is `available`: at most 1, without a unit."""
    amount: float | None = None
    unit = ""
    if isinstance(given, str):
        digits = given.strip().rstrip("BbKkMmGgTtIi ")
        unit = given.strip()[len(digits) :].strip().upper()
        with suppress(KeyError, ValueError):
            amount = float(digits) * UNITS[unit]
    else:
        amount = as_number(given)
    if amount is None or not 0 < amount <= MOST_BYTES:
        raise InputError(f"{name} {shown(given)} is not understood: give bytes, such as 20GB or 500MB, or a share, such as 0.5")
    return max(1, int(amount * available if amount <= 1 and not unit else amount))


def numbers(name: str, given: str, kind: Callable[[str], Number]) -> list[Number]:
    """Numbers written with commas between them: "3,4" is [3, 4]."""
    try:
        return [kind(part) for part in given.split(",")]
    except ValueError:
        raise InputError(f"{name} {given!r} is not understood: give numbers with commas between them, such as 3,4") from None


def _range(least: float, most: float, above: bool) -> str:
    return f"{'above' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:g}"
