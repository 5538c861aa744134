"""Values that a user gives, checked in one place: every refusal says what was given, where, and
what to do.

`name` is the argument's name in Python, which each surface writes in its own way; or, of a value
that is no argument, words for it, which all surfaces write as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Set
from difflib import get_close_matches
from typing import Any, cast

from unmask.common.errors import InputError

MOST_SHOWN, MOST_TOKENS = 80, 2**31 - 1
"""Characters of a value that a message shows, and the largest token id that tokenizers can look
up.
"""
DEEPEST = 8  # lists inside each other; no argument has more than three
LONGEST_RANGE = 10**7  # numbers of a range that becomes a list; more would use up the memory


def shown(value: object) -> str:
    """A value as messages show it: in one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of whatever class the user gave
        text = f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def plain(value: Any, depth: int = 0) -> Any:
    """Values of NumPy, torch or pandas, and ranges, as numbers and lists, also inside lists and
    dictionaries; devices and formats of torch as their names; others as is.

    What lies in more than DEEPEST lists, such as a list that holds itself, is left as it is.
    """
    if depth > DEEPEST:
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        try:
            return value.tolist()
        except RuntimeError:  # a sparse tensor, or one without data
            return value
    if type(value) is dict:
        values = {plain(key, depth + 1): plain(one, depth + 1) for key, one in value.items()}
        if len(values) < len(value):
            raise InputError(f"{shown(value)} has a key twice: give each once")
        return values
    if type(value) is range:
        if value[LONGEST_RANGE:]:
            raise InputError(f"{shown(value)} has more than {LONGEST_RANGE:,} numbers: give fewer")
        return list(value)
    if type(value) in (list, tuple):
        return type(value)([plain(one, depth + 1) for one in value])
    torch = sys.modules.get("torch")  # while nothing has imported it, no value is of its classes
    if torch is not None and isinstance(value, torch.device | torch.dtype):
        return str(value).removeprefix("torch.")  # as options have them: cpu, float32
    return value


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """`value`, if it is one of the `known` names; else an error that suggests the nearest."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
    use = f"use one of {', '.join(names)}"
    if near:
        use = f"did you mean {near[0]}? Use one of {', '.join(names)}"
    raise InputError(f"{shown(value)} is unknown", argument=name, use=use)


def whole(name: str, value: object, least: int, most: int) -> int:
    """`value` as an int, if it is a whole number from `least` to `most`; NumPy's integers are
    integers, booleans are not.
    """
    return cast(int, real(name, value, least, most, int, "a whole number"))


def real(
    name: str,
    value: object,
    least: float,
    most: float,
    kind: Any = int | float,
    what: str = "a number",
) -> float:
    """`value` as a float, if it is finite and from `least` to `most`."""
    number: Any = value if type(value) is int else plain(value)
    is_number = isinstance(number, kind) and not isinstance(number, bool)
    if not is_number or not least <= number <= most:
        problem = "out of range" if is_number else f"not {what}"
        raise InputError(
            f"{shown(number)} is {problem}",
            argument=name,
            use=f"give {what} from {least:.12g} to {most:.12g}",
        )
    return cast(float, number) if kind is int else float(number)


def texts_in_order(name: str, value: object, use: str = "one") -> list[str]:
    """`value` as a list of texts, if it is a list, an array, a Series or an iterator of them; a
    set has no order of its own.
    """
    items = plain(value)
    ordered = (
        isinstance(items, Iterable)
        and not isinstance(items, str | bytes | Mapping | Set)
        and not hasattr(items, "columns")
    )
    texts = list(items) if ordered and isinstance(items, Iterable) else [None]
    if any(not isinstance(one, str) for one in texts):
        raise InputError(f"{shown(value)} is not a list of texts", argument=name, use=f"give {use}")
    return cast("list[str]", texts)


def wholes(name: str, value: object) -> list[int]:
    """`value` as a list of ints, if it is a list, or an array, of whole numbers."""
    rows = plain(value)
    items = (
        list(rows) if isinstance(rows, Iterable) and not isinstance(rows, str | bytes) else [None]
    )
    if any(isinstance(one, bool) or not isinstance(one, int) for one in items):
        raise InputError(
            f"{shown(value)} is not a list of whole numbers",
            argument=name,
            use="give one such as [3, 4]",
        )
    return cast("list[int]", items)
