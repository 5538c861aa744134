"""What follows from a block's tables alone, computed once for all constructions over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from unmask.conditionals import Tables

Result = TypeVar("Result")


def kept_with_tables(compute: Callable[[Tables], Result]) -> Callable[[Tables], Result]:
    """`compute`, whose result is kept as long as the tables live; it must not hold the tables themselves."""
    kept: WeakKeyDictionary[Tables, Result] = WeakKeyDictionary()

    @wraps(compute)
    def once(tables: Tables) -> Result:
        if tables not in kept:
            kept[tables] = compute(tables)
        return kept[tables]

    return once
