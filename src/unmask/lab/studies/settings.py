"""Which model a study looks at, as a user gives it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unmask.errors import InputError
from unmask.lab.model import LabModel, table_model
from unmask.lab.spins import curie_weiss, ising, parse_fields, potts


@dataclass(frozen=True)
class ModelSettings:
    """Ising spins (`states` = 2) or Potts values on a graph; or, if `table` is given, an explicit joint from a file."""

    sites: int
    coupling: float
    fields: str = "0"
    graph: str = "complete"
    states: int = 2
    table: Path | None = None

    def build(self) -> LabModel:
        """The model."""
        if self.table is not None:
            return load_table(self.table)
        if self.sites < 2 or self.states < 2:
            raise InputError(f"{self.sites} sites of {self.states} values: use at least 2 of each")
        fields = parse_fields(self.fields, self.sites)
        if self.states != 2:
            return potts(self.states, self.coupling, fields, self.graph)
        return (
            curie_weiss(self.sites, self.coupling, fields)
            if self.graph == "complete"
            else ising(self.coupling, fields, self.graph)
        )

    def at(self, coupling: float) -> LabModel:
        """The same model with another coupling."""
        return replace(self, coupling=coupling).build()

    def describe(self) -> str:
        """One line for tables and captions."""
        if self.table is not None:
            return f"table {self.table.name}"
        kind = "Ising" if self.states == 2 else f"Potts (q={self.states})"
        return f"{kind}, {self.graph} graph, N={self.sites}, coupling {self.coupling:g}, fields {self.fields}"


def load_table(path: Path) -> LabModel:
    """A joint p[x_1, ..., x_N] from a .npy file or nested lists in a .json file."""
    try:
        cells = (
            np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(json.loads(path.read_text()), dtype=float)
        )
    except (OSError, ValueError, TypeError) as problem:
        raise InputError(f"table {path}: cannot be read as .npy or as nested lists of numbers in .json ({problem})") from None
    if cells.ndim < 2 or min(cells.shape) < 2:
        raise InputError(f"table {path}: of shape {cells.shape}; use at least 2 sites of at least 2 values")
    return table_model(cells, f"table {path.name}")


def parse_numbers(text: str, option: str) -> tuple[float, ...]:
    """Numbers from `0.1,0.3` or `FIRST:LAST:COUNT`."""
    try:
        if ":" in text:
            first, last, count = text.split(":")
            return tuple(float(v) for v in np.linspace(float(first), float(last), int(count)))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r}: use numbers with commas, or FIRST:LAST:COUNT") from None


def parse_sizes(text: str, sites: int) -> tuple[int, ...]:
    """Mask sizes from `all`, `1,2,3` or `1:4` (both ends in)."""
    try:
        if text == "all":
            return tuple(range(1, sites + 1))
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            sizes = tuple(range(first, last + 1))
        else:
            sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"k {text!r}: use all, numbers with commas, or FIRST:LAST") from None
    for k in sizes:
        if not 1 <= k <= sites:
            raise InputError(f"k = {k} masked sites of {sites}: use k from 1 to {sites}")
    if not sizes:
        raise InputError(f"k {text!r} names no size: use all, numbers with commas, or FIRST:LAST")
    return sizes
