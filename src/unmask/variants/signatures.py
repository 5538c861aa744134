"""The types of `mutants`: one sequence or several, and what `measured` makes of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, cast, overload

from unmask.answers.asking import Alphabet, Model, one_or_many
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from pandas import DataFrame

    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants

Names = str | Path | Sequence[str] | None
Places = str | Sequence[int] | None


class Shared(TypedDict, total=False):
    """Arguments with and without `measured`."""

    model: Model
    joint: str
    alphabet: Alphabet
    out: str | Path | None
    figure: str | Path | None
    device: str
    dtype: str
    rename: Mapping[str, str] | None
    lang: str | None
    shift: bool
    mask_token: str | None
    force: bool
    progress: Progress | None


class OfMutants(Shared, total=False):
    """Arguments of names and scans."""

    changes: int | None
    top: int | None
    by: str | None


class OfMeasured(Shared, total=False):
    """Arguments of `measured`."""

    positions: Places
    column: str | None
    variant: str | None
    skip_bad: bool
    better: str | None
    scores: str | Sequence[str] | None
    orders: int | None
    seed: int | None
    run: str | Path | None
    engine: str | None
    workers: int | None


Several = list[str] | tuple[str, ...]


class MutantsVerb(Protocol):
    """`mutants` as type checkers see it."""

    each: Callable[..., Iterator[Any]]

    @overload
    def __call__(
        self, sequence: str, *, measured: str | Path | DataFrame | Sequence[Mapping[str, Any]], **options: Unpack[OfMeasured]
    ) -> Measured: ...
    @overload
    def __call__(
        self, sequence: str, mutations: Names = None, positions: Places = None, **options: Unpack[OfMutants]
    ) -> Mutants: ...
    @overload
    def __call__(
        self, sequence: Several, mutations: Names = None, positions: Places = None, **options: Unpack[OfMutants]
    ) -> list[Mutants]: ...


def mutants_verb(each: Callable[..., Iterator[Mutants | Measured]]) -> MutantsVerb:
    """`one_or_many`, with these types."""
    return cast(MutantsVerb, one_or_many(each))
