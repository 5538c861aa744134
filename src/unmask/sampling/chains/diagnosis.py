"""How far to trust a run: the results of `unmask.diagnose`, and how they are measured.

The numbers of functionals are in `functionals`, the sentences in `verdict`, the judge of texts in
`judge`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

from unmask.common.files import atomic_path, write_json
from unmask.common.results import Result
from unmask.sampling.chains.convergence import (
    NAMES,
    NAN,
    Functional,
    draws_of,
    measure,
    stutter_rate,
    with_functionals,
)
from unmask.sampling.chains.figure import chain_figure
from unmask.sampling.chains.sample_run import SampleRun
from unmask.sampling.chains.verdict import verdict

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """The result of `unmask.diagnose`.

    kernel       what moved the chains
    energy       which energy they sampled
    chains       how many there are
    draws        kept texts of the chain that has fewest
    passes       forward passes of the chains
    scoring_passes  further passes that scored and compared the samples
    passes_per_step  passes that one step of a chain took
    acceptance   share of the steps that were accepted
    novelty      share of the steps that changed a token
    functionals  energy, unchanged tokens and equal neighbours, by length: mean, R-hat,
                 effective sample sizes
    stutter      share of neighbouring tokens that are equal
    start_stutter  the same of the starts
    unique       share of the samples' texts that are different
    at_start     share of samples that were taken before their chain had left its start
    lowest_energy  of all samples
    lowest_text  the text that has it
    verdict      sentences: how far to trust the samples
    judge        with `judge`, what a causal language model says of the texts

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> run.diagnosis.verdict[0].startswith("The chain leaves exp(-E / T) invariant")
    True
    """

    kernel: str
    energy: str
    chains: int
    draws: int
    passes: int
    scoring_passes: int
    passes_per_step: float
    acceptance: float
    novelty: float
    functionals: list[Functional]
    stutter: float
    start_stutter: float
    unique: float
    at_start: float
    lowest_energy: float
    lowest_text: str
    verdict: list[str] = field(default_factory=list)  # type: ignore[assignment]
    judge: dict[str, Any] | None = None

    ROWS: ClassVar[str] = "functionals"

    def row(self) -> dict[str, Any]:
        """The numbers by which runs are compared, NaN where they are not known."""
        r_hats = [f.r_hat for f in self.functionals if not isnan(f.r_hat)]
        sized = [f for f in self.functionals if not isnan(f.ess_bulk)]
        varying = [f for f in self.functionals if f.sd > 0]
        ess_bulk = NAN
        ess_per_1000_passes = NAN
        each_that_varies_has_ess = len(sized) == len(varying)
        if sized and each_that_varies_has_ess:  # else the smallest may be one that is unknown
            smallest = min(sized, key=lambda f: f.ess_bulk)
            ess_bulk = smallest.ess_bulk
            ess_per_1000_passes = smallest.ess_per_1000_passes
        score = NAN
        if self.judge is not None and self.judge["samples"] is not None:
            score = self.judge["samples"]
        return {
            "kernel": self.kernel,
            "energy": self.energy,
            "chains": self.chains,
            "draws": self.draws,
            "passes": self.passes,
            "acceptance": self.acceptance,
            "novelty": self.novelty,
            "r_hat": max(r_hats, default=NAN),
            "ess_bulk": ess_bulk,
            "ess_per_1000_passes": ess_per_1000_passes,
            "stutter": self.stutter,
            "unique": self.unique,
            "lowest_energy": self.lowest_energy,
            "judge": score,
        }

    @property
    def headline(self) -> str:
        """The verdict."""
        return " ".join(self.verdict)

    def __repr__(self) -> str:
        return (
            f"Diagnosis({self.kernel}, {self.chains} chains of {self.draws} draws: {self.headline})"
        )


@dataclass(frozen=True, repr=False)
class Diagnoses(Result):
    """The result of `unmask.diagnose` for several runs, side by side.

    names   of the runs: their folders as they were given, or "run 2" for a run that has none
    runs    the diagnosis of each

    >>> kernels = ("mh", "gibbs")
    >>> runs = [unmask.sample("A [MASK] sat.", chains=2, sweeps=4, kernel=k) for k in kernels]
    >>> unmask.diagnose(runs).to_frame()[["run", "kernel"]].values.tolist()
    [['run 1', 'mh'], ['run 2', 'gibbs']]
    """

    names: list[str]
    runs: list[Diagnosis]

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask diagnose A B --json` prints: the diagnosis of each run, under
        its name.
        """
        return {"runs": [{"run": name, **run.to_dict()} for name, run in self._named()]}

    def to_frame(self) -> pandas.DataFrame:
        """One row per run: how its chains moved, the largest R-hat and the smallest ESS of its
        functionals, its texts.
        """
        import pandas

        return pandas.DataFrame([{"run": name, **run.row()} for name, run in self._named()])

    def _named(self) -> Iterator[tuple[str, Diagnosis]]:
        return zip(self.names, self.runs, strict=True)

    @property
    def headline(self) -> str:
        """How many runs there are."""
        return f"{len(self.runs)} runs"

    def __repr__(self) -> str:
        return f"Diagnoses({', '.join(self.names)})"


def write_diagnosis(run: SampleRun, diagnosis: Diagnosis) -> None:
    """Write diagnostics.json and figures/chains.png into the folder of a run."""
    assert run.folder is not None
    write_json(run.folder / "diagnostics.json", diagnosis.to_dict())
    with atomic_path(run.folder / "figures" / "chains.png") as temporary:
        chain_figure(run).savefig(temporary, dpi=120, format="png")


def measure_run(run: SampleRun) -> Diagnosis:
    """Statistics of a run's samples and of the steps that led to them."""
    settings = run.settings
    kernel = settings.kernel
    samples = run.samples
    frame = with_functionals(run)
    passes = _passes_of(samples)
    # A step counts at each site that it redraws: `sites_per_step` updates are one step.
    site_updates = int(run.rates["steps"].sum())
    passes_per_step = passes / site_updates * kernel.sites_per_step
    functionals = []
    for length, part in frame.groupby("length"):
        passes_of_length = _passes_of(part)
        for name in NAMES:
            draws = draws_of(part, name)
            functionals.append(measure(name, int(length), draws, passes_of_length))
    start_of_each_chain = frame.drop_duplicates("chain")["start"]
    start_stutter = stutter_rate(list(start_of_each_chain))
    lowest = int(samples["energy"].argmin())
    diagnosis = Diagnosis(
        kernel=kernel.name,
        energy=settings.energy.name,
        chains=int(samples["chain"].nunique()),
        draws=int(samples.groupby("chain").size().min()),
        passes=passes,
        scoring_passes=int(run.rates["scoring_passes"].sum()),
        passes_per_step=passes_per_step,
        acceptance=_share_of_steps(run.rates, "accepted"),
        novelty=_share_of_steps(run.rates, "changed"),
        functionals=functionals,
        stutter=stutter_rate(list(frame["tokens"])),
        start_stutter=start_stutter,
        unique=float(samples["text"].nunique() / len(samples)),
        at_start=float(frame["at_start"].mean()),
        lowest_energy=float(samples["energy"].min()),
        lowest_text=str(samples["text"].iloc[lowest]),
    )
    return replace(diagnosis, verdict=verdict(diagnosis, settings))


def _passes_of(samples: pandas.DataFrame) -> int:
    """Forward passes of all chains; a sample has those of its chain so far."""
    return int(samples.groupby("chain")["passes"].max().sum())


def _share_of_steps(rates: pandas.DataFrame, name: str) -> float:
    """The column `name` of the rates, over all sites, per step."""
    return float(rates[name].sum() / rates["steps"].sum())
