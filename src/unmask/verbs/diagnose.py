"""The verb `diagnose`: how far to trust the samples of Markov chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.errors import InputError
from unmask.common.formats import count, in_form, number, share
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.chain_statistics import (
    ENOUGH,
    FEWEST_DRAWS,
    MIXED,
    NEARLY,
    ChainStatistics,
    Functional,
)
from unmask.verbs import Judge, PathLike

if TYPE_CHECKING:
    import pandas

    Run: TypeAlias = unmask.SampleRun | PathLike
    Runs: TypeAlias = Run | list[Run] | tuple[Run, ...]
else:
    Runs = Annotated[
        Any,
        ShownType("SampleRun | str | PathLike[str] | list[SampleRun | str | PathLike[str]]"),
        Written(metavar="FOLDER...", repeat=True),
    ]

MUCH_STUTTER = 0.05  # Share of equal neighbours, beyond twice that of the starts
MANY_AT_START = 0.05  # Share of samples that were taken before their chain had left its start
IN_WORDS = {
    "energy": "energy",
    "unchanged": "number of unchanged tokens",
    "stutter": "number of equal neighbours",
}
"""How sentences name the functionals."""


@dataclass(frozen=True, repr=False)
class Diagnosis(ChainStatistics, Result):
    """How far to trust the samples of one run: `run.diagnosis`, and an item of what
    `unmask.diagnose` returns.

    Its numbers are those of its base class.

    law     what distribution the chains leave as it is, in a sentence
    judge   with `judge`, what a causal language model says of the texts: its name, and nats per
            token of the last texts (`samples`) and of their `starts`; lower is better

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> run.diagnosis.verdict()[0].startswith("The chain leaves exp(-E / T) invariant")
    True
    """

    law: str = ""
    judge: dict[str, Any] | None = None

    KEYS: ClassVar[tuple[str, ...]] = (
        *(one.name for one in fields(ChainStatistics)),
        "verdict",
        "judge",
    )
    ROWS: ClassVar[str] = "functionals"

    def row(self) -> dict[str, Any]:
        """The numbers by which runs are compared, NaN where they are not known."""
        score = float("nan")
        if self.judge is not None and self.judge["samples"] is not None:
            score = self.judge["samples"]
        return {**super().row(), "judge": score}

    def about(self) -> list[str]:
        """How many draws and passes there are, and how often chains moved."""
        parts = [
            f"{self.chains} chains of {self.draws} draws, {self.passes:,} passes",
            f"{self.passes_per_step:,.2f} per step",
            f"accepted {self.acceptance:.1%}, changed {self.novelty:.1%}",
        ]
        if self.scoring_passes:
            parts.append(f"{self.scoring_passes:,} more to score the samples")
        return ["; ".join(parts)]

    def tables(self) -> list[Table]:
        """The functionals, with R-hat and effective sample sizes."""
        columns = [
            Column("tokens, functional", text=True),
            Column("mean", in_form(",.2f")),
            Column("sd", in_form(",.2f")),
            Column("R-hat", in_form(",.3f")),
            Column("ESS bulk", in_form(",.0f")),
            Column("ESS tail", in_form(",.0f")),
            Column("ESS per\n1000 passes", in_form(",.2f")),
        ]
        rows = []
        for one in self.functionals:
            name = f"{one.length}, {one.name}"
            sizes = [one.ess_bulk, one.ess_tail, one.ess_per_1000_passes]
            rows.append([name, one.mean, one.sd, one.r_hat, *sizes])
        stutter = number(self.stutter, ".1%")
        notes = [f"unique texts {self.unique:.1%}, equal neighbours {stutter}"]
        if self.judge is not None:
            notes.append(_in_words(self.judge))
        return [Table(columns, rows, notes=notes)]

    def verdict(self) -> list[str]:
        """One sentence for each thing that a reader should know, the most important first."""
        return [self.law, *_mixing(self), *_moves(self), *_stutter(self)]

    def __repr__(self) -> str:
        found = " ".join(self.verdict())
        return f"Diagnosis({self.kernel}, {self.chains} chains of {self.draws} draws: {found})"


@dataclass(frozen=True, repr=False)
class Diagnoses(Result):
    """The result of `unmask.diagnose`: the diagnosis of each run, side by side.

    names     of the runs: their folders as they were given, or "run 2" for a run that has none
    runs      the diagnosis of each
    folders   where the runs are kept, None for those in memory

    >>> kernels = ("mh", "gibbs")
    >>> runs = [unmask.sample("A [MASK] sat.", chains=2, sweeps=4, kernel=k) for k in kernels]
    >>> unmask.diagnose(runs).to_frame()[["run", "kernel"]].values.tolist()
    [['run 1', 'mh'], ['run 2', 'gibbs']]
    """

    names: list[str]
    runs: list[Diagnosis]
    folders: list[Path | None]

    KEYS: ClassVar[tuple[str, ...]] = ("runs=named",)
    ROWS: ClassVar[str] = "runs"

    @property
    def named(self) -> list[dict[str, Any]]:
        """The JSON of each diagnosis, with the name of its `run`."""
        pairs = zip(self.names, self.runs, strict=True)
        return [{"run": name, **diagnosis.to_dict()} for name, diagnosis in pairs]

    def to_frame(self) -> pandas.DataFrame:
        """One row per run: how its chains moved, the largest R-hat and the smallest ESS of its
        functionals, its texts.
        """
        from unmask.common.lazy import pandas

        pairs = zip(self.names, self.runs, strict=True)
        return pandas.DataFrame([{"run": name, **diagnosis.row()} for name, diagnosis in pairs])

    def about(self) -> list[str]:
        """How the chains of a single run moved; nothing of several runs."""
        if len(self.runs) > 1:
            return []
        return self.runs[0].about()

    def tables(self) -> list[Table]:
        """The functionals of a single run, or a row for each of several runs."""
        if len(self.runs) == 1:
            return self.runs[0].tables()
        columns = {
            "passes": Column("passes", count),
            "acceptance": Column("accepted", share),
            "novelty": Column("changed", share),
            "r_hat": Column("R-hat", in_form(",.3f")),
            "ess_bulk": Column("ESS", in_form(",.0f")),
            "ess_per_1000_passes": Column("ESS per\n1000 passes", in_form(",.2f")),
            "unique": Column("unique", share),
        }
        if self.runs[0].judge is not None:
            columns["judge"] = Column("judge", in_form(".3f"))
        rows = []
        for name, diagnosis in zip(self.names, self.runs, strict=True):
            numbers = diagnosis.row()
            values = [numbers[column] for column in columns]
            rows.append([f"{name} ({diagnosis.kernel})", *values])
        return [Table([Column("run", text=True, least=16), *columns.values()], rows)]

    def verdict(self) -> list[str]:
        """The verdict on a single run, or on each of several, with its name."""
        if len(self.runs) == 1:
            return self.runs[0].verdict()
        pairs = zip(self.names, self.runs, strict=True)
        return [f"{name}: {' '.join(diagnosis.verdict())}" for name, diagnosis in pairs]

    def notices(self) -> list[str]:
        """Where diagnoses and figures were written."""
        kept = [folder for folder in self.folders if folder is not None]
        if not kept:
            return []
        if len(kept) == 1:
            return [f"figures are in {kept[0] / 'figures'}"]
        return ["the diagnosis of each run is in its folder, in diagnostics.json"]

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, place: int) -> Diagnosis:
        return self.runs[place]

    def __repr__(self) -> str:
        return f"Diagnoses({', '.join(self.names)})"


@checked
def diagnose(run: Runs, judge: Judge = None) -> Diagnoses:
    """Measure how far to trust the samples of a run: whether chains mixed, what moved, whether
    texts repeat themselves.

    A run that has a folder gets diagnostics.json and figures/chains.png there. Several runs are
    put side by side.

    Parameters:
        run: The out folder of an `unmask sample` run, finished or not; in Python also what
            `sample` returned. Or a list of them.

    Returns:
        `Diagnoses`: a `Diagnosis` for each run.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> unmask.diagnose(run)[0].draws
    4
    """
    from unmask.sampling.chains.judge import CausalJudge, judge_run

    runs: list[Any] = list(run) if isinstance(run, list | tuple) else [run]
    if not runs:
        raise InputError("is empty", argument="run", use="give the folder of a run, or several")
    sampled = []
    for place, given in enumerate(runs, 1):
        which = f"run {place} of {len(runs)}: " if len(runs) > 1 else ""
        sampled.append(_loaded(given, which))
    judged: list[dict[str, Any] | None] = [None] * len(sampled)
    if judge is not None:
        scores = CausalJudge(judge)
        judged = [judge_run(scores, one) for one in sampled]
    diagnoses = []
    for one, of_judge in zip(sampled, judged, strict=True):
        diagnosis = diagnosis_of(one, of_judge)
        diagnoses.append(diagnosis)
        if one.folder is not None:
            write_diagnosis(one, one.folder, diagnosis)
    names = []
    for place, one in enumerate(sampled, 1):
        name = f"run {place}" if one.folder is None else str(one.folder)
        names.append(name)
    return Diagnoses(names, diagnoses, [one.folder for one in sampled])


def diagnosis_of(run: ChainSamples, judge: dict[str, Any] | None = None) -> Diagnosis:
    """The diagnosis of a run.

    judge   what a causal language model says of its texts
    """
    from unmask.sampling.chains.statistics import statistics_of

    kernel = run.settings.kernel
    options = vars(kernel)  # the sentence names those that its kernel has
    law = kernel.verdict.format_map({**options, "energy": run.settings.energy.name})
    return Diagnosis(**vars(statistics_of(run)), law=law, judge=judge)


def write_diagnosis(run: ChainSamples, folder: Path, diagnosis: Diagnosis) -> None:
    """Write diagnostics.json and figures/chains.png into the folder of a run."""
    from unmask.common.files import atomic_path, write_json
    from unmask.sampling.chains.figure import chain_figure

    write_json(folder / "diagnostics.json", diagnosis.to_dict())
    with atomic_path(folder / "figures" / "chains.png") as temporary:
        chain_figure(run).savefig(temporary, dpi=120, format="png")


def _loaded(run: Any, which: str) -> ChainSamples:
    """A run as `sample` returned it, or as its folder has it; an error begins with `which` run
    it is.
    """
    from unmask.sampling.chains.sample_folder import load_run

    if isinstance(run, unmask.Generation):
        raise InputError(
            f"{which}the texts of a generation are independent: there is no chain to diagnose",
            use="read its law and log-probabilities, or generate with a judge",
        )
    if isinstance(run, ChainSamples):
        return run
    try:
        return load_run(run)
    except InputError as error:
        raise InputError(f"{which}{error.marked}") from None


# ---- sentences ----


def _in_words(judge: dict[str, Any]) -> str:
    """What a causal language model says of the texts."""
    starts = ""
    if judge["starts"] is not None:
        starts = f", {number(judge['starts'])} for their starts"
    texts = f"{number(judge['samples'])} nats per token for the last texts"
    return f"judge {judge['name']}: {texts}{starts} (lower is better)"


def _mixing(diagnosis: Diagnosis) -> list[str]:
    """Whether the chains have mixed, as far as R-hat and ESS can tell."""
    if diagnosis.chains < 2 or diagnosis.draws < FEWEST_DRAWS:
        return [
            f"{diagnosis.chains} chains of {diagnosis.draws} draws are too few to know whether they"
            " mix: run 2 or more chains, with 4 or more draws each."
        ]
    varying = [f for f in diagnosis.functionals if not isnan(f.r_hat)]
    if not varying:
        return [
            "No functional varies, so nothing can be said about mixing: the chains do not move."
        ]
    worst = max(varying, key=lambda f: f.r_hat)
    r_hat = f"R-hat of the {IN_WORDS[worst.name]} is {worst.r_hat:.3f}"
    if worst.r_hat > NEARLY:
        return [
            f"The chains have NOT mixed: {r_hat}, which should be below {MIXED}. Averages over"
            " these samples still depend on the starts, and an effective sample size has no"
            f" meaning where R-hat is above {NEARLY}: run longer, or use blocks."
        ]
    if worst.r_hat > MIXED:
        sentence = (
            f"The chains have nearly mixed: {r_hat}, which should be below {MIXED}. Run longer"
            " before trusting averages."
        )
    else:
        sentence = f"No sign that the chains have not mixed: {r_hat} or less."
    return [sentence, *_few_independent_draws(diagnosis, varying)]


def _few_independent_draws(diagnosis: Diagnosis, varying: Sequence[Functional]) -> list[str]:
    """A sentence if the smallest ESS is too small for a stable mean."""
    sized = [f for f in varying if not isnan(f.ess_bulk)]
    if not sized:
        return []
    smallest = min(sized, key=lambda f: f.ess_bulk)
    if smallest.ess_bulk >= ENOUGH:
        return []
    return [
        f"{diagnosis.chains * diagnosis.draws:,} draws are worth {smallest.ess_bulk:.0f}"
        f" independent ones for the {IN_WORDS[smallest.name]}; {ENOUGH} are wanted for a stable"
        " mean."
    ]


def _moves(diagnosis: Diagnosis) -> list[str]:
    """Sentences if most proposals redraw the current token, or chains stay at their starts."""
    sentences = []
    most_are_accepted = diagnosis.acceptance > 0.5
    few_of_them_change = diagnosis.novelty < 0.5 * diagnosis.acceptance
    if most_are_accepted and few_of_them_change:
        sentences.append(
            f"{diagnosis.acceptance:.0%} of steps were accepted, but only {diagnosis.novelty:.0%}"
            " of redrawn tokens changed: most accepted proposals redraw the current token."
        )
    if diagnosis.at_start > MANY_AT_START:
        sentences.append(
            f"{diagnosis.at_start:.0%} of the samples were taken before their chain had left the"
            " text it started from: run longer, or burn in."
        )
    return sentences


def _stutter(diagnosis: Diagnosis) -> list[str]:
    """A sentence if many neighbouring tokens are equal."""
    # With 20 amino acids neighbours are equal now and then; with 8,000 words they hardly ever
    # are. The starts say what is usual.
    usual = 0.0 if isnan(diagnosis.start_stutter) else diagnosis.start_stutter
    stutters_much = diagnosis.stutter > MUCH_STUTTER + 2 * usual  # false for NaN: no neighbours
    if not stutters_much:
        return []
    of_starts = f", {usual:.1%} in the starts" if usual else ""
    return [
        f"{diagnosis.stutter:.1%} of neighbouring tokens are equal{of_starts}: the texts stutter."
    ]
