"""Results that follow from one object, a block's tables or a sampler's target: computed once, and kept while that lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
Result = TypeVar("Result")
Rest = ParamSpec("Rest")


def kept_with_first(compute: Callable[Concatenate[Owner, Rest], Result]) -> Callable[Concatenate[Owner, Rest], Result]:
    """`compute`, whose results are kept as long as its first argument lives, which they must not hold themselves."""
    kept: WeakKeyDictionary[Any, dict[Any, Result]] = WeakKeyDictionary()

    @wraps(compute)
    def once(owner: Owner, /, *rest: Rest.args, **named: Rest.kwargs) -> Result:
        known, key = kept.setdefault(owner, {}), (rest, tuple(sorted(named.items())))
        if key not in known:
            known[key] = compute(owner, *rest, **named)
        return known[key]

    return once
