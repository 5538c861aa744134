"""Options of the studies of `unmask lab`, and of each as a function of `unmask.lab`.

A study named X takes the options of STUDIES[X], is computed by `run` in `lab/studies/X.py`, and is `unmask lab X` and
`unmask.lab.X(...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unmask import checks
from unmask.arguments import fitted
from unmask.errors import InputError
from unmask.options.kinds import Choice, File, Kind, Real, Whole
from unmask.options.option import Options, option, output_row
from unmask.options.shared import LARGEST_SEED, Printed

GRAPHS = ("complete", "cycle", "path")
MOST_VALUES = 1000
"""Of numbers in a list, such as the couplings of a sweep."""
STRONGEST = 10_000
"""Largest coupling or sharpness; some models need a smaller limit, and raise when they are built."""
STRENGTH = Real(-STRONGEST, STRONGEST)
SOME_SITES, FITS, SEED = Whole(2, 12), Whole(2, 100_000), Whole(0, LARGEST_SEED)


class Several(Kind):
    """Several numbers, written as text or given as a sequence; what the text means is the study's to say."""

    commas = True

    def check(self, name: str, given: Any) -> str:
        """As the command line writes it: [0.1, 0.3] is "0.1,0.3"."""
        if isinstance(given, str):
            return given
        one = checks.as_number(given)
        values = fitted(name, given, Sequence[float]) if one is None else [one]
        if not 1 <= len(values) <= MOST_VALUES:
            raise InputError(f"{name} has {len(values):,} values: give 1 to {MOST_VALUES:,}")
        numbers = [checks.real(name, value, -STRONGEST, STRONGEST) for value in values]
        return ",".join(str(int(number)) if number.is_integer() else repr(number) for number in numbers)


_k = partial(option, kind=Several(), help="Masked sites: all, numbers with commas, or FIRST:LAST.", short="-k")
_couplings = partial(option, kind=Several(), help="Couplings to sweep: numbers with commas, or FIRST:LAST:COUNT.")
_fields = partial(
    option, kind=Several(), help="Fields: one number, one per site with commas, FIRST:LAST evenly, or normal:SD:SEED."
)
_sites = partial(option, kind=Whole(2, 2**63), help="Sites N of the model; states^N may be at most 4,096.", short="-n")
_coupling = partial(option, kind=STRENGTH, help="Coupling of each pair of joined sites.", short="-b")
_graph = partial(option, kind=Choice(GRAPHS), help="Which sites are joined")
_seed = partial(option, 0, SEED, "Seed of everything random.")


@dataclass(frozen=True)
class StudyOptions(Options):
    """Options of any study; each is checked when the object is made."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {row.name: _plain(getattr(self, row.name)) for row in self.declared()}


@dataclass(frozen=True)
class SpinOptions(StudyOptions):
    """Ising spins (2 states) or Potts values on a graph."""

    sites: int = _sites(6)
    fields: str = _fields("0")
    graph: str = _graph("complete")
    states: int = option(2, Whole(2, 4096), "Values of a site: 2 is Ising, more is Potts.", "-q")


@dataclass(frozen=True)
class ModelOptions(SpinOptions):
    """Spins of one coupling, or an explicit joint."""

    coupling: float = _coupling(0.25)
    table: Any = option(
        None, File(), "A joint p[x1, ..., xN] instead of spins: .npy, or nested lists in .json.", python="Or an array."
    )


@dataclass(frozen=True)
class Dictionary(ModelOptions):
    """Theorem 1: samples needed and mixing time are one quantity."""

    examples = ("unmask lab dictionary", "unmask lab dictionary --sites 4 --coupling 0.5 --json")
    k: str = _k("all")
    couplings: str = _couplings("0:0.5:11")
    adaptive_k: int = option(2, Whole(1, 12), "Masked sites of the adaptive masks.")
    sharpness: float = option(1.0, STRENGTH, "How strongly adaptive masks prefer surprising tokens.")
    seed: int = _seed()


@dataclass(frozen=True)
class Masking(ModelOptions):
    """Theorem 2: masking more is statistically better, and what that needs."""

    examples = ("unmask lab masking", "unmask lab masking --sites 4 --fits 50 --out masking")
    fields: str = _fields("-0.5:0.5")
    slow_sites: int = option(5, SOME_SITES, "Sites of the model where averaging all masks goes wrong.")
    slow_coupling: float = option(0.5, STRENGTH, "Its coupling.")
    learn_sites: int = option(5, SOME_SITES, "Sites of the model that is fitted to samples.")
    learn_coupling: float = option(0.25, STRENGTH, "Its coupling.")
    learn_fields: str = option("normal:0.2:3", Several(), "Its fields.")
    samples: int = option(4000, Whole(1, 10**9), "Samples of each fit.")
    fits: int = option(300, FITS, "Fits for each k and each loss.")
    seed: int = _seed()


@dataclass(frozen=True)
class Dependence(SpinOptions):
    """Theorem 3: strong dependence makes generation and training slow."""

    examples = ("unmask lab dependence", "unmask lab dependence --sites 4 --couplings 0,0.3 --k 1")
    couplings: str = _couplings("0:0.6:13")
    table_couplings: str = option("0.1,0.3,0.6", Several(), "Couplings of the table.")
    k: str = _k("1,2,3")


@dataclass(frozen=True)
class Parallel(ModelOptions):
    """Theorem 3: one parallel forward pass is not a Gibbs step."""

    examples = ("unmask lab parallel", "unmask lab parallel --sites 4 --graph cycle --k 2")
    sites: int = _sites(5)
    fields: str = _fields("-0.35:0.35")
    coupling: float = _coupling(0.4)
    k: str = _k("all")
    couplings: str = _couplings("0,0.1,0.2,0.3,0.4")


@dataclass(frozen=True)
class Stutter(StudyOptions):
    """Why a parallel draw says a word twice."""

    examples = ("unmask lab stutter", "unmask lab stutter --slots 4 --weight 0.3")
    weight: float = option(0.5, Real(0, 1), "Probability of the first of the two sentences.")
    slots: int = option(8, SOME_SITES, "Largest number of slots for the word.")
    repair_slots: int = option(4, SOME_SITES, "Slots of the refinement.")
    noise: float = option(0.001, Real(0, 1), "Share of the uniform law mixed in for the refinement.")
    steps: int = option(24, Whole(1, 100_000), "Steps of the refinement.")


@dataclass(frozen=True)
class Schedule(ModelOptions):
    """What unmasking in few parallel steps costs, and which order costs least."""

    examples = ("unmask lab schedule", "unmask lab schedule --sites 6 --orders 50 --json")
    sites: int = _sites(8)
    fields: str = _fields("0.2")
    graph: str = _graph("path")
    coupling: float = _coupling(0.6)
    orders: int = option(200, Whole(1, 100_000), "Random orders to average.")
    seed: int = _seed()


@dataclass(frozen=True)
class Decoding(ModelOptions):
    """What decoders that choose positions before tokens lose, and what bounds it."""

    examples = ("unmask lab decoding", "unmask lab decoding --sites 6 --graph cycle --gammas 0,0.1,0.5")
    sites: int = _sites(8)
    fields: str = _fields("-1:1")
    graph: str = _graph("path")
    coupling: float = _coupling(0.6)
    gammas: str = option(
        "0,0.05,0.1,0.2,0.4,0.8,1.6,3.2", Several(), "Bounds to sweep: numbers with commas, or FIRST:LAST:COUNT."
    )


STUDIES: dict[str, type[StudyOptions]] = {
    "dictionary": Dictionary,
    "masking": Masking,
    "dependence": Dependence,
    "parallel": Parallel,
    "stutter": Stutter,
    "schedule": Schedule,
    "decoding": Decoding,
}


@dataclass(frozen=True)
class AllOptions(Options):
    """Options of `unmask lab all`."""

    examples = ("unmask lab all", "unmask lab all --fits 50 --out report")
    fits: int = option(300, FITS, "Fits for each k and each loss in the Monte Carlo of `masking`.")
    seed: int = _seed()


@dataclass(frozen=True)
class Left(Printed):
    """What a study leaves."""

    out: Any = output_row(None, File(), "Folder for figure and numbers: new, empty, or an earlier lab's.")


def with_output(table: type[Options], folder: str) -> type[Options]:
    """The options of a study's command, which writes its files to `folder` by default."""
    out = replace(Left.declaration("out"), otherwise=folder)
    more = {"__doc__": table.__doc__, "__annotations__": {"out": Any}, "out": field(default=None, metadata={"row": out})}
    return dataclass(frozen=True)(type(table.__name__, (Left, table), more))


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    shape = getattr(value, "shape", None)
    return value if shape is None else f"an array of shape {tuple(shape)}"
