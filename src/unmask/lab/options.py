"""What each study can be asked: its options, their defaults and their help, for `unmask lab` and for Python alike.

Nothing here loads NumPy, so that `unmask lab --help` costs nothing. A study named X takes the options of STUDIES[X], is
computed by `run` in `studies/X.py`, and is `unmask lab X` and `unmask.lab.X(...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from unmask import checks
from unmask.arguments import fitted
from unmask.errors import InputError

GRAPHS = ("complete", "cycle", "path")
MOST_VALUES = 1000
"""Of numbers in a list, such as the couplings of a sweep."""
STRONGEST = 10_000
"""Largest coupling or sharpness; what a given model can hold is less, and told when it is built."""


def option(default: object, help: str, short: str = "") -> Any:
    """A field of a study's options, with its line of help and its one-letter name."""
    return field(default=default, metadata={"help": help, "short": short})


def _table() -> Any:
    return option(None, "A joint p[x1, ..., xN] instead of spins: .npy, or nested lists in .json.")


def _k(default: str) -> Any:
    return option(default, "Masked sites: all, numbers with commas, or FIRST:LAST.", "-k")


def _couplings(default: str) -> Any:
    return option(default, "Couplings to sweep: numbers with commas, or FIRST:LAST:COUNT.")


def _seed() -> Any:
    return option(0, "Seed of everything random.")


SITES = "Sites N of the model; states^N may be at most 4,096."
FIELDS = "Fields: one number, one per site with commas, FIRST:LAST evenly, or normal:SD:SEED."
COUPLING = "Coupling of each pair of joined sites."
GRAPH = "Which sites are joined: complete, cycle or path."


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of any study; each is checked when the object is made."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in LISTS:
                object.__setattr__(self, one.name, as_text(one.name, value))
            elif one.name in BOUNDS:
                least, most = BOUNDS[one.name]
                whole = isinstance(one.default, int)
                number = (checks.whole if whole else checks.real)(one.name, value, least, most)
                object.__setattr__(self, one.name, number)
            elif isinstance(one.default, float):
                object.__setattr__(self, one.name, checks.real(one.name, value, 0, 1))
            elif one.name == "graph":
                checks.one_of("graph", value, GRAPHS)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}


@dataclass(frozen=True, kw_only=True)
class SpinOptions(StudyOptions):
    """Ising spins (2 states) or Potts values on a graph."""

    sites: int = option(6, SITES, "-n")
    fields: str = option("0", FIELDS)
    graph: str = option("complete", GRAPH)
    states: int = option(2, "Values of a site: 2 is Ising, more is Potts.", "-q")


@dataclass(frozen=True, kw_only=True)
class ModelOptions(SpinOptions):
    """Spins of one coupling, or an explicit joint."""

    coupling: float = option(0.25, COUPLING, "-b")
    table: Any = _table()


@dataclass(frozen=True, kw_only=True)
class Dictionary(ModelOptions):
    """Theorem 1: samples needed and mixing time are one quantity."""

    k: str = _k("all")
    couplings: str = _couplings("0:0.5:11")
    adaptive_k: int = option(2, "Masked sites of the adaptive masks.")
    sharpness: float = option(1.0, "How strongly adaptive masks prefer surprising tokens.")
    seed: int = _seed()


@dataclass(frozen=True, kw_only=True)
class Masking(ModelOptions):
    """Theorem 2: masking more is statistically better, and what that needs."""

    fields: str = option("-0.5:0.5", FIELDS)
    slow_sites: int = option(5, "Sites of the model where averaging all masks goes wrong.")
    slow_coupling: float = option(0.5, "Its coupling.")
    learn_sites: int = option(5, "Sites of the model that is fitted to samples.")
    learn_coupling: float = option(0.25, "Its coupling.")
    learn_fields: str = option("normal:0.2:3", "Its fields.")
    samples: int = option(4000, "Samples of each fit.")
    fits: int = option(300, "Fits for each k and each loss.")
    seed: int = _seed()


@dataclass(frozen=True, kw_only=True)
class Dependence(SpinOptions):
    """Theorem 3: strong dependence makes generation and training slow."""

    couplings: str = _couplings("0:0.6:13")
    table_couplings: str = option("0.1,0.3,0.6", "Couplings of the table.")
    k: str = _k("1,2,3")


@dataclass(frozen=True, kw_only=True)
class Parallel(ModelOptions):
    """Theorem 3: one parallel forward pass is not a Gibbs step."""

    sites: int = option(5, SITES, "-n")
    fields: str = option("-0.35:0.35", FIELDS)
    coupling: float = option(0.4, COUPLING, "-b")
    k: str = _k("all")
    couplings: str = _couplings("0,0.1,0.2,0.3,0.4")


@dataclass(frozen=True, kw_only=True)
class Stutter(StudyOptions):
    """Why a parallel draw says a word twice."""

    weight: float = option(0.5, "Probability of the first of the two sentences.")
    slots: int = option(8, "Largest number of slots for the word.")
    repair_slots: int = option(4, "Slots of the refinement.")
    noise: float = option(0.001, "Share of the uniform law mixed in for the refinement.")
    steps: int = option(24, "Steps of the refinement.")


@dataclass(frozen=True, kw_only=True)
class Schedule(ModelOptions):
    """What unmasking in few parallel steps costs, and which order costs least."""

    sites: int = option(8, SITES, "-n")
    fields: str = option("0.2", FIELDS)
    graph: str = option("path", GRAPH)
    coupling: float = option(0.6, COUPLING, "-b")
    orders: int = option(200, "Random orders to average.")
    seed: int = _seed()


STUDIES: dict[str, type[StudyOptions]] = {
    "dictionary": Dictionary,
    "masking": Masking,
    "dependence": Dependence,
    "parallel": Parallel,
    "stutter": Stutter,
    "schedule": Schedule,
}

LISTS = ("fields", "learn_fields", "couplings", "table_couplings", "k")
"""Options that hold several numbers, written as text or given as a sequence."""

BOUNDS: dict[str, tuple[int, int]] = {
    "slow_sites": (2, 12),
    "learn_sites": (2, 12),
    "states": (2, 4096),
    "coupling": (-STRONGEST, STRONGEST),
    "slow_coupling": (-STRONGEST, STRONGEST),
    "learn_coupling": (-STRONGEST, STRONGEST),
    "sharpness": (-STRONGEST, STRONGEST),
    "adaptive_k": (1, 12),
    "samples": (1, 10**9),
    "fits": (2, 100_000),
    "orders": (1, 100_000),
    "slots": (2, 12),
    "repair_slots": (2, 12),
    "steps": (1, 100_000),
    "seed": (0, 2**63 - 1),
}
"""Least and most of each number; how many sites fit depends on their states and is checked where the space is made."""


def as_text(name: str, given: str | float | Sequence[float]) -> str:
    """An option of several numbers as the command line writes it: [0.1, 0.3] is "0.1,0.3"."""
    if isinstance(given, str):
        return given
    one = checks.as_number(given)
    values = fitted(name, given, Sequence[float]) if one is None else [one]
    if not 1 <= len(values) <= MOST_VALUES:
        raise InputError(f"{name} has {len(values):,} values: give 1 to {MOST_VALUES:,}")
    numbers = [checks.real(name, value, -STRONGEST, STRONGEST) for value in values]
    return ",".join(str(int(number)) if number.is_integer() else repr(number) for number in numbers)


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    shape = getattr(value, "shape", None)
    return value if shape is None else f"an array of shape {tuple(shape)}"
