"""The model of a study as its user describes it: spins on a graph, or a table of probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval

from unmask.errors import InputError
from unmask.runs.files import parse_json, read_bytes, user_path
from unmask.signature import Written, settings

if TYPE_CHECKING:
    import numpy as np

    from unmask.lab.model import LabModel

PathLike = str | os.PathLike[str]
Numbers = Annotated[str | float | Sequence[float], Written(metavar="NUMBERS")]
Sizes = Annotated[str | int | Sequence[int], Written(metavar="SIZES")]
Strength = Annotated[float, Interval(ge=-10_000, le=10_000)]
"""Some models need a smaller limit; they raise when they are built."""
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
MOST_NUMBERS = 1000
"""Of a sweep."""


@settings
class SpinModel:
    """The model: Ising spins or Potts values on a graph, or a joint.

    Parameters
    ----------
    sites
        Sites N of the model; states^N may be at most 4,096.
    coupling
        Coupling of each pair of joined sites.
    fields
        Fields: one number, one per site with commas, FIRST:LAST evenly, or normal:SD:SEED.
    graph
        Which sites are joined.
    states
        Values of a site: 2 is Ising, more is Potts.
    table
        A joint p[x1, ..., xN] instead of spins: a .npy file, nested lists in a .json file, or in Python an array.
    """

    sites: Annotated[int, Interval(ge=2, le=12)] = 6
    coupling: Strength = 0.25
    fields: Numbers = "0"
    graph: Literal["complete", "cycle", "path"] = "complete"
    states: Annotated[int, Interval(ge=2, le=4096)] = 2
    table: Annotated[Any, Written(metavar="PATH")] = None

    def build(self) -> LabModel:
        """Enumerate the model."""
        from unmask.lab.model import curie_weiss, ising, potts, table_model

        if self.table is not None:
            return table_model(_cells(self.table), self.describe())
        fields = read_numbers("fields", self.fields, self.sites)
        if self.states != 2:
            return potts(self.states, self.coupling, fields, self.graph)
        complete = self.graph == "complete"
        return curie_weiss(self.sites, self.coupling, fields) if complete else ising(self.coupling, fields, self.graph)

    def at(self, coupling: float) -> LabModel:
        """Enumerate the same model with another coupling."""
        if self.table is not None:
            raise InputError(f"{self.describe()} has no coupling to vary: leave table out")
        return replace(self, coupling=coupling).build()

    def describe(self) -> str:
        """One line for tables and captions."""
        if isinstance(self.table, str | os.PathLike):
            return f"table {Path(self.table).name}"
        if self.table is not None:
            return f"table of shape {_cells(self.table).shape}"
        kind = "Ising" if self.states == 2 else f"Potts (q={self.states})"
        return f"{kind}, {self.graph} graph, N={self.sites}, coupling {self.coupling:g}, fields {self.fields}"

    def options(self, **others: Any) -> dict[str, Any]:
        """What a study's numbers say about their origin: these fields, the study's own options, and one line."""
        file = self.table is None or isinstance(self.table, str | os.PathLike)
        table = self.table if file else f"an array of shape {_cells(self.table).shape}"
        return {**asdict(replace(self, table=table)), **others, "model": self.describe()}


def read_numbers(name: str, value: Numbers, sites: int | None = None) -> np.ndarray:
    """Numbers from a sequence, `0.1,0.3`, or `FIRST:LAST:COUNT`.

    With `sites`, one number per site: also `0.1` for all, `FIRST:LAST`, or `normal:SD:SEED`.
    """
    import numpy as np

    each = f"one number, {sites} numbers with commas, FIRST:LAST, or normal:SD:SEED"
    usage = each if sites else "numbers with commas, or FIRST:LAST:COUNT"
    try:
        if not isinstance(value, str):
            numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
        elif sites and value.startswith("normal:"):
            _, sd, seed = value.split(":")
            numbers = float(sd) * np.random.default_rng(int(seed)).normal(size=sites)
        elif ":" in value:
            first, last, count = (f"{value}:{sites}" if sites else value).split(":")
            numbers = np.linspace(float(first), float(last), min(int(count), MOST_NUMBERS + 1))
        else:
            numbers = np.array([float(part) for part in value.split(",")])
    except (TypeError, ValueError):
        raise InputError(f"{name} {value!r} is not understood: use {usage}") from None
    if numbers.ndim != 1 or not 1 <= len(numbers) <= MOST_NUMBERS or not np.isfinite(numbers).all():
        raise InputError(f"{name} {value!r} must be 1 to {MOST_NUMBERS:,} finite numbers: use {usage}")
    if sites and len(numbers) not in (1, sites):
        raise InputError(f"{name} {value!r} are {len(numbers)} numbers for {sites} sites: use {usage}")
    return np.broadcast_to(numbers, (sites,)).copy() if sites else numbers


def read_sizes(value: Sizes, sites: int) -> tuple[int, ...]:
    """Mask sizes from `all`, `1,2,3`, a number or a sequence."""
    if value == "all":
        return tuple(range(1, sites + 1))
    try:
        several = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
        sizes = tuple(int(k) for k in several)
    except (TypeError, ValueError):
        raise InputError(f"k {value!r} is not understood: use all, or numbers with commas") from None
    for k in sizes:
        if not 1 <= k <= sites:
            raise InputError(f"k = {k} masked sites of {sites}: use k from 1 to {sites}")
    return sizes


def _cells(table: Any) -> np.ndarray:
    """The numbers of a joint: an array, a .npy file, or nested lists in a .json file."""
    import numpy as np

    name = f"table {str(table)[:200]!r}"
    try:
        if not isinstance(table, str | os.PathLike):
            cells = np.asarray(table, dtype=np.float64)
        elif (path := user_path(table, "table")).suffix == ".npy":
            cells = np.load(BytesIO(read_bytes(path)), allow_pickle=False).astype(np.float64)
        else:
            cells = np.array(parse_json(read_bytes(path).decode()), dtype=np.float64)
    except (ValueError, TypeError, EOFError, MemoryError) as problem:
        why = " ".join(str(problem).split())[:160]
        raise InputError(f"{name} is not an array of numbers ({why}): give one, as .npy, or nested lists in .json") from None
    if cells.ndim < 2 or min(cells.shape) < 2:
        raise InputError(f"{name} is of shape {cells.shape}: use at least 2 sites of at least 2 values")
    return cells
