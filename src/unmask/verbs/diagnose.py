"""The verb `diagnose`: how far to trust the samples of Markov chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import floor, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.errors import InputError
from unmask.common.formats import count, how_many, in_form, number, share
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

if TYPE_CHECKING:  # a type checker sees what a user may give
    import pandas

    Run: TypeAlias = unmask.SampleRun | PathLike
    Runs: TypeAlias = Run | list[Run] | tuple[Run, ...]
else:  # at run time `common.border` reads here how the argument is written
    Runs = Annotated[
        Any,
        ShownType("SampleRun | str | PathLike[str] | list[SampleRun | str | PathLike[str]]"),
        Written(metavar="FOLDER...", repeat=True),
    ]

# Shares beyond which the verdict has a sentence:
MUCH_STUTTER = 0.05  # of neighbours that are equal, above twice the share in the starts
MANY_AT_START = 0.05  # of samples that were taken before their chain had left its start
MANY_ACCEPTED = 0.5  # of steps that were accepted;
FEW_CHANGE = 0.5  # then fewer of the tokens that accepted steps redrew than this have changed
FUNCTIONALS = {
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

    law     which distribution the chains leave invariant, in a sentence
    judge   how likely a causal language model finds the texts, None if no judge was given: its
            `name`, and its nats per token, lower is better, for the last texts (`samples`) and for
            their `starts`. Each of the two is None where it can score none of the texts

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=4, seed=0)
    >>> run.diagnosis.verdict()[0].startswith("The chain leaves exp(-E / T) invariant")
    True
    """

    law: str = ""
    judge: dict[str, Any] | None = None

    KEYS: ClassVar[tuple[str, ...]] = (
        *[field.name for field in fields(ChainStatistics)],
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
        passes = how_many(self.passes, "pass", "passes")
        parts = [
            f"{_chains_and_draws(self)}, {passes}",
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
        notes = [f"unique texts {share(self.unique)}, equal neighbours {share(self.stutter)}"]
        if self.judge is not None:
            notes.append(_judge_in_words(self.judge))
        return [Table(columns, rows, notes=notes)]

    def verdict(self) -> list[str]:
        """One sentence for each thing that a reader should know, the most important first."""
        return [self.law, *_mixing(self), *_moves(self), *_stutter(self)]

    def __repr__(self) -> str:
        found = " ".join(self.verdict())
        return f"Diagnosis({self.kernel}, {_chains_and_draws(self)}: {found})"


@dataclass(frozen=True, repr=False)
class Diagnoses(Result):
    """The result of `unmask.diagnose`: the diagnosis of each run, side by side.

    names     of the runs: their folders, or "run 2" for a run that has none
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
        pairs = self._with_names()
        return [{"run": name, **diagnosis.to_dict()} for name, diagnosis in pairs]

    def _with_names(self) -> Iterator[tuple[str, Diagnosis]]:
        """The name of each run, and its diagnosis."""
        return zip(self.names, self.runs, strict=True)

    def to_frame(self) -> pandas.DataFrame:
        """One row per run: how its chains moved, the largest R-hat and the smallest ESS of its
        functionals, its texts.
        """
        from unmask.common.lazy import pandas

        pairs = self._with_names()
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
        columns = {  # by the keys of `Diagnosis.row`
            "passes": Column("passes", count),
            "acceptance": Column("accepted", share),
            "novelty": Column("changed", share),
            "r_hat": Column("R-hat", in_form(",.3f")),
            "ess_bulk": Column("ESS", in_form(",.0f")),
            "ess_per_1000_passes": Column("ESS per\n1000 passes", in_form(",.2f")),
            "unique": Column("unique", share),
        }
        is_judged = self.runs[0].judge is not None  # then all are
        if is_judged:
            columns["judge"] = Column("judge", in_form(".3f"))
        rows = []
        for name, diagnosis in self._with_names():
            numbers = diagnosis.row()
            values = [numbers[key] for key in columns]
            rows.append([f"{name} ({diagnosis.kernel})", *values])
        return [Table([Column("run", text=True, least=16), *columns.values()], rows)]

    def verdict(self) -> list[str]:
        """The verdict on a single run, or on each of several, with its name."""
        if len(self.runs) == 1:
            return self.runs[0].verdict()
        pairs = self._with_names()
        return [f"{name}: {' '.join(diagnosis.verdict())}" for name, diagnosis in pairs]

    def notices(self) -> list[str]:
        """Where diagnoses and figures were written."""
        kept = [folder for folder in self.folders if folder is not None]
        if not kept:
            return []
        if len(kept) == 1:
            where = str(kept[0])
        elif len(kept) == len(self.folders):
            where = "the folder of each run"
        else:
            where = "the folder of each run that has one"
        return [f"diagnostics.json and figures/chains.png are in {where}"]

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

    given_runs: list[Any] = [run]
    if isinstance(run, list | tuple):
        given_runs = [*run]
    if not given_runs:
        raise InputError("is empty", argument="run", use="give the folder of a run, or several")
    sampled = []
    for place, given in enumerate(given_runs, 1):
        prefix = ""
        if len(given_runs) > 1:
            prefix = f"run {place} of {len(given_runs)}: "
        sampled.append(_loaded(given, prefix))
    # The judge may refuse a text, and a diagnosis may need a library that is missing: nothing is
    # written before all of them are there.
    judged: Sequence[dict[str, Any] | None]
    if judge is None:
        judged = [None for _ in sampled]
    else:
        causal_judge = CausalJudge(judge)
        judged = [judge_run(causal_judge, one) for one in sampled]
    diagnoses = [diagnosis_of(one, scores) for one, scores in zip(sampled, judged, strict=True)]
    names = []
    for place, (one, diagnosis) in enumerate(zip(sampled, diagnoses, strict=True), 1):
        if one.folder is None:
            names.append(f"run {place}")
        else:
            names.append(str(one.folder))
            write_diagnosis(one, one.folder, diagnosis)
    folders = [one.folder for one in sampled]
    return Diagnoses(names=names, runs=diagnoses, folders=folders)


def diagnosis_of(run: ChainSamples, judge: dict[str, Any] | None = None) -> Diagnosis:
    """The diagnosis of a run.

    judge   how likely a causal language model finds its texts, as `judge_run` returns it
    """
    from unmask.sampling.chains.statistics import statistics_of

    kernel = run.settings.kernel
    names = dict(vars(kernel))
    names["energy"] = run.settings.energy.name
    law = kernel.verdict.format_map(names)  # it may name {energy} and the options of its kernel
    statistics = statistics_of(run)
    # The same fields, as a result that can be shown; their values are not copied.
    values = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return Diagnosis(**values, law=law, judge=judge)


def write_diagnosis(run: ChainSamples, folder: Path, diagnosis: Diagnosis) -> None:
    """Write diagnostics.json and figures/chains.png into the folder of a run."""
    from unmask.common.files import atomic_path, write_json
    from unmask.sampling.chains.figure import chain_figure
    from unmask.verbs.sample import CHAINS_FIGURE

    write_json(folder / "diagnostics.json", diagnosis.to_dict())
    with atomic_path(folder / "figures" / CHAINS_FIGURE) as temporary:
        chain_figure(run).savefig(temporary, dpi=120, format="png")


def _loaded(run: Any, prefix: str) -> ChainSamples:
    """The run that `sample` returned, or that a folder holds.

    prefix   the beginning of an error: which run it is, such as "run 2 of 3: ", or nothing
    """
    from unmask.sampling.chains.sample_folder import load_run

    if isinstance(run, unmask.Generation):
        raise InputError(
            f"{prefix}the texts of a generation are independent: there is no chain to diagnose",
            use="read its law and log-probabilities, or generate with a judge",
        )
    if isinstance(run, ChainSamples):
        return run
    try:
        return load_run(run)
    except InputError as error:
        # `marked`: each surface is still to write the names of arguments in its own way.
        raise InputError(f"{prefix}{error.marked}") from None


# ---- sentences ----


def _chains_and_draws(diagnosis: ChainStatistics) -> str:
    """How many chains there are, and of how many draws."""
    chains = how_many(diagnosis.chains, "chain")
    draws = how_many(diagnosis.draws, "draw")
    return f"{chains} of {draws}"


def _judge_in_words(judge: dict[str, Any]) -> str:
    """How likely a causal language model finds the texts."""
    of_starts = ""
    if judge["starts"] is not None:
        of_starts = f", {number(judge['starts'])} for their starts"
    of_texts = f"{number(judge['samples'])} nats per token for the last texts"
    return f"judge {judge['name']}: {of_texts}{of_starts} (lower is better)"


def _named(diagnosis: Diagnosis, functional: Functional) -> str:
    """How a sentence names a functional: with the length of its texts, if there are several."""
    name = FUNCTIONALS[functional.name]
    if _has_several_lengths(diagnosis):
        return f"{name} (texts of {functional.length} tokens)"
    return name


def _has_several_lengths(diagnosis: Diagnosis) -> bool:
    lengths = {functional.length for functional in diagnosis.functionals}
    return len(lengths) > 1


def _mixing(diagnosis: Diagnosis) -> list[str]:
    """Whether the chains have mixed, as far as R-hat and ESS can tell."""
    if diagnosis.chains < 2 or diagnosis.draws < FEWEST_DRAWS:
        return [
            f"{_chains_and_draws(diagnosis)} cannot tell whether chains mix: run 2 or more chains,"
            f" with {FEWEST_DRAWS} or more draws each."
        ]
    varying = [f for f in diagnosis.functionals if f.sd > 0]
    if not varying:
        sentence = "No functional varies, so nothing can be said about mixing"
        if diagnosis.novelty == 0:
            sentence += ": the chains do not move"
        return [f"{sentence}."]
    measured = [f for f in varying if not isnan(f.r_hat)]
    unmeasured = [f for f in varying if isnan(f.r_hat)]
    sentences = []
    if measured:
        sentences += _mixing_by_r_hat(diagnosis, measured)
    if unmeasured:
        sentences.append(_lengths_without_r_hat(unmeasured))
    return sentences


def _mixing_by_r_hat(diagnosis: Diagnosis, measured: Sequence[Functional]) -> list[str]:
    """What the largest R-hat says of the chains, and the smallest ESS if R-hat allows one.

    measured   the functionals that have an R-hat
    """
    worst = max(measured, key=lambda f: f.r_hat)
    name = _named(diagnosis, worst)
    if worst.r_hat > NEARLY:
        return [
            f"The chains have NOT mixed: R-hat of the {name} is {worst.r_hat:.3f}, which should be"
            f" below {MIXED}. Averages over these samples still depend on the starts, and an"
            f" effective sample size has no meaning where R-hat is above {NEARLY}: run longer, or"
            " use blocks."
        ]
    if worst.r_hat >= MIXED:
        sentence = (
            f"The chains have nearly mixed: R-hat of the {name} is {worst.r_hat:.3f}, which should"
            f" be below {MIXED}. Run longer before trusting averages."
        )
    else:
        sentence = (
            "No sign that the chains have not mixed: the largest R-hat, that of the"
            f" {name}, is {worst.r_hat:.3f}."
        )
    return [sentence, *_few_independent_draws(diagnosis, measured)]


def _lengths_without_r_hat(unmeasured: Sequence[Functional]) -> str:
    """A sentence about the lengths of which there is a single chain."""
    lengths = sorted({functional.length for functional in unmeasured})
    *all_but_last, last = [str(length) for length in lengths]
    listed = last
    if all_but_last:
        listed = f"{', '.join(all_but_last)} and {last}"
    tokens = "token" if lengths == [1] else "tokens"
    return (
        f"Texts of {listed} {tokens} have no R-hat, which compares two or more chains of the same"
        " length: run more chains."
    )


def _few_independent_draws(diagnosis: Diagnosis, measured: Sequence[Functional]) -> list[str]:
    """A sentence if the smallest ESS is too small for a stable mean.

    measured   the functionals that have an R-hat
    """
    sized = [f for f in measured if not isnan(f.ess_bulk)]
    if not sized:
        return []
    smallest = min(sized, key=lambda f: f.ess_bulk)
    if smallest.ess_bulk >= ENOUGH:
        return []
    if _has_several_lengths(diagnosis):  # how many draws are of one length is not known here
        draws = "The draws"
    else:
        draws = f"{diagnosis.chains * diagnosis.draws:,} draws"
    independent = floor(smallest.ess_bulk)  # down, so that it is not shown as ENOUGH
    return [
        f"{draws} are worth {independent} independent ones for the {_named(diagnosis, smallest)};"
        f" {ENOUGH} are wanted for a stable mean."
    ]


def _moves(diagnosis: Diagnosis) -> list[str]:
    """Sentences if accepted steps mostly redraw the current tokens, or chains stay at their
    starts.
    """
    sentences = []
    most_are_accepted = diagnosis.acceptance > MANY_ACCEPTED
    # `novelty` counts all redrawn tokens, of which the share `acceptance` was in accepted steps.
    few_of_them_change = diagnosis.novelty < FEW_CHANGE * diagnosis.acceptance
    if most_are_accepted and few_of_them_change:
        sentences.append(
            f"{diagnosis.acceptance:.0%} of steps were accepted, but only {diagnosis.novelty:.0%}"
            " of redrawn tokens changed: most tokens that accepted steps redrew are the same as"
            " before."
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
    usual = diagnosis.start_stutter
    if isnan(usual):  # texts of one token have no neighbours
        usual = 0.0
    stutters_much = diagnosis.stutter > MUCH_STUTTER + 2 * usual  # false for NaN
    if not stutters_much:
        return []
    of_starts = ""
    if usual > 0:
        of_starts = f", {usual:.1%} in the starts"
    return [
        f"{diagnosis.stutter:.1%} of neighbouring tokens are equal{of_starts}: the texts stutter."
    ]
