"""How far to trust a chain: acceptance and novelty, rank R-hat and effective sample size of scalar functionals.

    energy      E(x)
    unchanged   tokens that are still those of the chain's start
    stutter     neighbouring tokens that are equal

R-hat compares the variance between chains with that within them, on ranks (Vehtari et al. 2021); near 1 when the chains
look the same. ESS is the number of independent draws that would give as good a mean. Both are computed by ArviZ. Chains over
texts of different lengths have different targets and are compared length by length.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.options.option import documented
from unmask.options.sampling import DiagnoseOptions
from unmask.runs.files import atomic_path, write_json
from unmask.sampling.run.result import SampleRun, load_run
from unmask.sampling.run.text_statistics import distinct, self_bleu, stutter_rate, stutters
from unmask.sampling.run.verdict import verdict

if TYPE_CHECKING:
    import pandas

FEWEST_DRAWS = 4
"""Draws per chain that ArviZ needs at least."""
TAILS = (0.05, 0.95)
"""Quantiles whose ESS the tail ESS is the smaller of."""


@dataclass(frozen=True)
class Functional:
    """One scalar function of the text, over the chains of one length; R-hat and ESS are NaN where they are not known."""

    name: str
    length: int
    mean: float
    sd: float
    r_hat: float
    ess_bulk: float
    ess_tail: float
    ess_per_1000_passes: float


@dataclass(frozen=True)
class PositionRates:
    """Shares of the steps that redrew one position of the texts of one length: accepted, and changed (novel)."""

    length: int
    position: int
    accepted: float
    changed: float


@dataclass(frozen=True)
class Diagnosis:
    """The result of `unmask.diagnose`.

    Self-BLEU and distinct-n compare the last texts of the chains with each other (all texts of a decoder): one chain's
    consecutive texts resemble each other by construction. `independent_...` are the same statistics of texts whose tokens
    do not depend on each other (see `verdict`).

    passes       forward passes that the chains asked for, whether they were run or answered from memory
    at_start     share of samples that were taken before their chain had left its start
    in_starts    share of samples that are the start of some chain

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
    positions: list[PositionRates]
    swaps: list[float]
    functionals: list[Functional]
    self_bleu: float
    independent_self_bleu: float
    distinct: dict[int, float]
    stutter: float
    start_stutter: float
    independent_stutter: float
    independent_neighbours: int
    unique: float
    at_start: float
    in_starts: float
    lowest_energy: float
    lowest_text: str
    verdict: list[str] = field(default_factory=list)
    judge: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask diagnose --json` prints: null where a number is not known, or is infinite."""
        return dict(_finite(asdict(self)))

    def to_frame(self) -> pandas.DataFrame:
        """One row per length and functional: mean, standard deviation, R-hat, effective sample sizes."""
        import pandas

        return pandas.DataFrame([asdict(functional) for functional in self.functionals])

    def __repr__(self) -> str:
        return f"Diagnosis({self.kernel}, {self.chains} chains of {self.draws} draws: {self.verdict[0]})"

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.verdict)
        return f"<ul>{said}</ul>{self.to_frame().to_html(index=False, float_format='{:.3f}'.format)}"


@documented(DiagnoseOptions)
@checked
def diagnose(run: SampleRun | str | os.PathLike[str], judge: str | None = None, device: str = "auto") -> Diagnosis:
    """How far to trust the samples of a run, or of the folder that it left.

    A run that has a folder gets diagnostics.json and figures/chains.png there.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> unmask.diagnose(run).draws
    4
    """
    if judge is None and device != "auto":
        raise InputError(f"device {device!r} was given, which only a judge uses: give a judge, or leave it out")
    known = run if isinstance(run, SampleRun) else load_run(run)
    found = known.diagnosis
    if judge is not None:
        from unmask.sampling.run.judge import CausalJudge, judge_run

        found = replace(found, judge=judge_run(CausalJudge(judge, device), known))
    if known.folder is not None:
        from unmask.sampling.run.figures import chain_figure

        write_json(known.folder / "diagnostics.json", found.to_dict())
        with atomic_path(known.folder / "figures" / "chains.png") as temporary:
            chain_figure(known).savefig(temporary, dpi=120, format="png")
    return found


def measure_run(run: SampleRun) -> Diagnosis:
    """Statistics of a run's samples and of the steps that led to them."""
    settings, samples = run.settings, run.samples
    entry = settings.entry
    frame = with_functionals(run)
    texts = [list(map(int, tokens)) for tokens in frame["tokens"]]
    apart = texts if entry.decodes else [list(map(int, t)) for t in frame.drop_duplicates("chain", keep="last")["tokens"]]
    independent = [list(map(int, tokens)) for tokens in frame.drop_duplicates("chain")["independent"]]
    passes, steps = int(samples.groupby("chain")["passes"].max().sum()), int(run.rates["steps"].sum())
    functionals = []
    if entry.mixes:
        for length, part in frame.groupby("length"):
            spent = int(part.groupby("chain")["passes"].max().sum())
            functionals += [
                measure(name, int(length), draws_of(part, name), spent) for name in ("energy", "unchanged", "stutter")
            ]
    found = Diagnosis(
        kernel=settings.kernel,
        energy=settings.energy,
        chains=int(samples["chain"].nunique()),
        draws=int(samples.groupby("chain").size().min()),
        passes=passes,
        scoring_passes=int(run.rates["scoring_passes"].sum()),
        passes_per_step=passes / max(1, steps) * settings.sites_per_step if steps else float("nan"),
        acceptance=_share(run.rates, "accepted"),
        novelty=_share(run.rates, "changed"),
        positions=position_rates(run.rates),
        swaps=list(run.swaps),
        functionals=functionals,
        self_bleu=self_bleu(apart),
        independent_self_bleu=self_bleu(independent),
        distinct={n: distinct(apart, n) for n in (1, 2, 3)},
        stutter=stutter_rate(texts),
        start_stutter=float("nan") if entry.decodes else stutter_rate(list(frame.drop_duplicates("chain")["start"])),
        independent_stutter=stutter_rate(independent),
        independent_neighbours=sum(max(0, len(text) - 1) for text in independent),
        unique=float(samples["text"].nunique() / len(samples)),
        at_start=float(frame["at_start"].mean()),
        in_starts=float(frame["in_starts"].mean()),
        lowest_energy=float(samples["energy"].min()),
        lowest_text=str(samples["text"].iloc[int(samples["energy"].argmin())]),
    )
    return replace(found, verdict=verdict(found, settings, measured=arviz_statistics() is not None))


def with_functionals(run: SampleRun) -> pandas.DataFrame:
    """The samples with their scalar functionals. `tokens`, `start`, `independent`: ids from first to last free position."""
    frame = run.samples.copy()
    starts = dict(zip(run.starts["chain"], run.starts["ids"], strict=True))
    independent = dict(zip(run.starts["chain"], run.starts["independent"], strict=True))
    where = {length: part["position"].tolist() for length, part in run.rates.groupby("length")}
    known = {tuple(ids) for ids in starts.values()}
    rows = list(zip(frame["chain"], frame["length"], frame["ids"], strict=True))
    spans = {length: slice(min(positions), max(positions) + 1) for length, positions in where.items()}
    frame["tokens"] = [ids[spans[n]] for _, n, ids in rows]
    frame["start"] = [starts[c][spans[n]] for c, n, _ in rows]
    frame["independent"] = [independent[c][spans[n]] for c, n, _ in rows]
    frame["unchanged"] = [float(sum(ids[p] == starts[c][p] for p in where[n])) for c, n, ids in rows]
    frame["stutter"] = [float(stutters(x)) for x in frame["tokens"]]
    frame["in_starts"] = [tuple(ids) in known for ids in frame["ids"]]
    frame["at_start"] = (frame["unchanged"] == frame["length"]).groupby(frame["chain"]).cummin()
    return frame


def draws_of(frame: pandas.DataFrame, name: str) -> NDArray[np.float64]:
    """A functional as (chains, draws), truncated to the shortest chain."""
    chains = [part[name].to_numpy(dtype=np.float64) for _, part in frame.groupby("chain")]
    common = min(len(chain) for chain in chains)
    return np.array([chain[:common] for chain in chains])


def measure(name: str, length: int, draws: NDArray[np.float64], passes: int) -> Functional:
    """R-hat and ESS of one functional."""
    chains, count = draws.shape
    r_hat = bulk = tail = float("nan")
    array_stats = arviz_statistics()
    if array_stats is not None and count >= FEWEST_DRAWS and np.ptp(draws) > 0:
        axes = {"chain_axis": 0, "draw_axis": 1}
        with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move have R-hat inf
            bulk = float(array_stats.ess(draws, method="bulk", **axes))
            tail = float(array_stats.ess(draws, method="tail", prob=TAILS, **axes))
            r_hat = float(array_stats.rhat(draws, method="rank", **axes)) if chains > 1 else r_hat
    return Functional(
        name, length, float(draws.mean()), float(draws.std()), r_hat, bulk, tail, 1000 * bulk / passes if passes else float("nan")
    )


def arviz_statistics() -> Any | None:
    """ArviZ's statistics of plain arrays; None where the package arviz-stats is not installed."""
    try:
        from arviz_stats.base import array_stats  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return None
    return array_stats


def position_rates(rates: pandas.DataFrame) -> list[PositionRates]:
    """Acceptance and novelty of every position that was redrawn."""
    return [
        PositionRates(int(row.length), int(row.position), row.accepted / row.steps, row.changed / row.steps)
        for row in rates[rates["steps"] > 0].itertuples()
    ]


def _share(rates: pandas.DataFrame, name: str) -> float:
    steps = int(rates["steps"].sum())
    return float(rates[name].sum() / steps) if steps else float("nan")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not isfinite(value) else value
