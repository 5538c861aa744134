"""A function with options of every kind: parameters, a choice of methods, groups, conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy.typing as npt
from annotated_types import Interval

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import PYTHON_ONLY, Only, TakesMethod, Written

Count = Annotated[int, Interval(ge=1, le=9)]


@settings
class Slow:
    """A slow method.

    Parameters:
        size: Things at once.
    """

    name: ClassVar[str] = "slow"
    size: Count = 2


@settings
class Fast(Slow):
    """A fast method.

    Parameters:
        rate: Things per second.
    """

    name: ClassVar[str] = "fast"
    rate: Annotated[float, Interval(gt=0, le=1)] = 0.5


@settings
class Group:
    """Things that go together.

    Parameters:
        allow: What may stand where.
        pairs: Numbers.
    """

    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("PLACE=WORDS")] = None
    pairs: tuple[int, ...] = ()


@settings
class Order:
    """How results are ordered.

    Parameters:
        reverse: Last ones first.
        by: What orders them.
    """

    reverse: bool = False
    by: str = "name"


METHODS = {"slow": Slow, "fast": Fast}


@checked
def work(
    text: str | Sequence[str],
    *,
    top: Count = 3,
    kind: Literal["red", "green"] = "red",
    method: Annotated[Slow | str, TakesMethod("support.made_up_signature:METHODS")] = "slow",
    group: Group = Group(),  # noqa: B008
    positions: Sequence[int] | None = None,
    path: Path | None = None,
    array: Annotated[npt.ArrayLike | None, PYTHON_ONLY] = None,
    flag: bool = False,
    near: Annotated[int | None, Only(beside=("positions", "path"))] = None,
    far: Annotated[int | None, Only(without=("near", "allow"))] = None,
    order: Annotated[Order | None, Only(beside=("positions",))] = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Do work.

    More about it.

    Parameters:
        text: What to work on.
        top: How many.
        near: How near.

    Returns:
        All arguments.

    >>> work("a")
    """
    return {name: one for name, one in locals().items() if name != "progress"}
