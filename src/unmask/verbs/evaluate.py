"""`evaluate`: Table 1 of Torroba Hennigen & Kim (2023), for a model and texts of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, ShownType, Written
from unmask.common.errors import InputError, argument_name
from unmask.common.files import as_json, user_path, write_atomically, write_json, writing
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.common.warn import warn
from unmask.joints.constructions.construction import (
    WHERE,
    Construction,
    Rule,
    TakesConstructions,
    all_constructions,
)
from unmask.joints.registry import label_of, name_of_stored, published
from unmask.models.load import Model
from unmask.runs.file_names import kind_of
from unmask.runs.fingerprint import provenance
from unmask.runs.lines import records
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Engine, Out, PathLike, Seed
from unmask.verbs.study_tables import (
    HEADINGS,
    cell,
    frame_of,
    markdown_table,
    place_of,
    skipped_in_words,
    write_study,
    written,
)

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure
    from unmask.studies.evaluation.plan import ChosenPairs, GivenPairs, Plan
    from unmask.studies.evaluation.run import MeasuredPairs, Measuring

PAPER = "paper"
"""In the place of constructions: those of the published table, over what the paper's joints run."""
BOTH = ("random", "contiguous")
"""The two schemes of the published table, in its order."""
ENOUGH_PAIRS = 1000
"""Pairs of numbers to report."""
Count = Annotated[int, Interval(ge=1, le=10_000_000)]
CHOICE = Only(without=("blocks",))
"""Marks what decides the choice of pairs, which blocks that are given leave no room for."""
if TYPE_CHECKING:
    RulesOrPaper: TypeAlias = str | Iterable[Rule]
    """Several constructions, or their names with commas between them, "all", or "paper"."""
else:
    RulesOrPaper = Annotated[
        Any,
        TakesConstructions(WHERE, several=True, also=(PAPER,)),
        ShownType("str | Iterable[str | Construction | Callable[[Tables], Joint | Tensor]]"),
        Written(metavar="A,B"),
    ]


@dataclass(frozen=True)
class Evaluation(Result):
    """Table 1 for one model and one set of pairs.

    settings     of the call, with the model's fingerprint and hashes of the data
    rows         one dict per pair and construction: pair, text, first, second, construction,
                 pair_nll, ... (docs/evaluation.md has all columns)
    failed       the pairs that are not in the table, each with the reason
    skipped      how many texts gave no pair, by reason
    contiguous   with both schemes the evaluation of adjacent tokens; this one then is that of
                 random pairs
    folder       where the run is kept, if it is
    provenance   when, where and with which versions it was made

    >>> texts, words = ["The cat sat on the mat."], "cat,dog,sat,lay"
    >>> table = unmask.evaluate(texts, pairs=1, constructions="product,chain", alphabet=words)
    >>> [row["construction"] for row in table.rows]
    ['product', 'chain']
    """

    settings: dict[str, Any]
    rows: list[dict[str, Any]] = field(repr=False)
    failed: list[dict[str, Any]] = field(default_factory=list, repr=False)
    skipped: Counter[str] = field(default_factory=Counter)
    contiguous: Evaluation | None = None
    folder: Path | None = None
    provenance: dict[str, Any] = field(default_factory=provenance, repr=False)

    # ---- numbers ----

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """{"n_pairs", "incompatibility", "constructions": [{construction, u_ppl, p_ppl, a_kl,
        g_kl, ...}]}, each with its interval; `unmask.studies.evaluation.summary` defines them.
        """
        if not self.rows:
            return {"n_pairs": 0, "incompatibility": None, "constructions": []}
        from unmask.common.lazy import pandas
        from unmask.studies.evaluation.summary import summarise

        seed = self.settings.get("seed") or 0  # of the bootstrap; given blocks have none
        names = [name_of_stored(one) for one in self.settings["constructions"]]
        return summarise(pandas.DataFrame(self.rows), names, seed)

    @property
    def n_pairs(self) -> int:
        """How many pairs are in the table."""
        count: int = self.numbers["n_pairs"]
        return count

    @property
    def complete(self) -> bool:
        """Whether no pair failed."""
        return not any(one.failed for one in self._by_scheme)

    @cached_property
    def _by_scheme(self) -> list[Evaluation]:
        """This evaluation, and that of contiguous pairs if there is one."""
        if self.contiguous is None:
            return [self]
        return [replace(self, contiguous=None), self.contiguous]

    # ---- what a person sees ----

    @property
    def pairs_in_words(self) -> str:
        """How many pairs of which scheme: "12 random pairs"."""
        pairs = "pair" if self.n_pairs == 1 else "pairs"
        return f"{self.n_pairs:,} {self.settings.get('scheme') or 'given'} {pairs}"

    def about(self) -> list[str]:
        """The pairs, the model and the settings that decide the numbers: a line for each scheme."""
        return [one._caption() for one in self._by_scheme]

    def _caption(self) -> str:
        settings = self.settings
        source = settings.get("blocks", settings.get("data"))
        parts = [f"{self.pairs_in_words} of {source}", f"model {settings['model']}"]
        if settings.get("seed") is not None:
            parts.append(f"seed {settings['seed']}")
        for stored in settings["constructions"]:
            steps = _steps_of(stored)
            if steps is not None:
                label = label_of(name_of_stored(stored))
                parts.append(f"{label} stopped after {steps} steps")
        if settings.get("alphabet"):
            parts.append(f"over {len(settings['alphabet'])} tokens of an alphabet")
        elif settings.get("support") == "all":
            parts.append("over every output column")
        parts.append(f"{settings.get('dtype')} on {settings.get('device')}")
        if self.failed:
            parts.append(f"{len(self.failed)} pairs failed and are not in the table")
        return "; ".join(parts) + "."

    def tables(self) -> list[Table]:
        """For each scheme a row per construction."""
        return [one._table() for one in self._by_scheme if one.rows]

    def _table(self) -> Table:
        columns = [Column(self.pairs_in_words, text=True)]
        for measure, heading in HEADINGS.items():
            columns.append(Column(heading, show=partial(written, measure=measure)))
        columns.append(
            Column("P-NLL per token\nminus product", show=partial(cell, measure="difference"))
        )
        rows = []
        for row in self.numbers["constructions"]:
            means = [row[measure]["value"] for measure in HEADINGS]
            difference = row.get("difference", "")  # the product has none
            rows.append([label_of(row["construction"]), *means, difference])
        return Table(columns, rows)

    def verdict(self) -> list[str]:
        """Which construction predicts the pairs best, how to read the numbers, how compatible the
        conditionals are, and what is approximate.
        """
        if not self.tables():
            return []
        best = [one._best(self._scheme_in_words(one)) for one in self._by_scheme if one.rows]
        return [*best, *self._reading(), *self._doubts()]

    def _scheme_in_words(self, one: Evaluation) -> str:
        """Which pairs a sentence is about, where there are those of two schemes."""
        if self.contiguous is None:
            return ""
        return f" of {one.pairs_in_words}"

    def _best(self, of_pairs: str) -> str:
        """Which construction has the lowest P-PPL, and whether it is lower than the product's.

        of_pairs   which pairs these are, in words
        """
        best = min(self.numbers["constructions"], key=lambda row: row["p_ppl"]["value"])
        sentence = f"Lowest P-PPL{of_pairs}: {label_of(best['construction'])}"
        difference = best.get("difference")
        if difference is None or difference["high"] is None:  # the product itself, or one pair
            return f"{sentence}."
        if difference["high"] < 0:
            return f"{sentence}, significantly lower than the product's."
        return f"{sentence}, not significantly lower than the product's."

    def _reading(self) -> list[str]:
        sentences = [
            "Lower is better. In brackets: 95 % bootstrap intervals over pairs.",
            "The MLM's U-PPL is that of its own unary conditionals.",
        ]
        for one in self._by_scheme:
            if not one.rows:
                continue
            of_scheme = self._scheme_in_words(one)
            incompatibility = cell(one.numbers["incompatibility"], "incompatibility")
            sentences.append(
                f"Incompatibility of the conditionals{of_scheme} in nats, root mean square"
                f" (0: one joint has both): {incompatibility}."
            )
        return sentences

    def _doubts(self) -> list[str]:
        """Constructions that did not converge, and on how many pairs.

        One that the user stopped after a number of steps is not among them.
        """
        missed = []
        for one in self._by_scheme:
            stopped = [
                name_of_stored(stored)
                for stored in one.settings["constructions"]
                if _steps_of(stored) is not None
            ]
            for row in one.numbers["constructions"]:
                name = row["construction"]
                count = row["not_converged"]
                if count and name not in stopped:
                    missed.append(f"{label_of(name)} on {count} of {one.pairs_in_words}")
        if not missed:
            return []
        return [f"Not converged, so that these rows are approximate: {', '.join(missed)}."]

    def notices(self) -> list[str]:
        """Where the files are, which texts were skipped, and how many pairs failed."""
        lines = []
        for one in self._by_scheme:
            if one.rows:
                lines.append(place_of("intervals, rows and figures", one.folder))
            lines += skipped_in_words(one.skipped)
            if one.failed:
                lines.append(one._failures_in_words())
        return list(dict.fromkeys(lines))

    def _failures_in_words(self) -> str:
        count = len(self.failed)
        chosen = self.n_pairs + count
        failed = f"{count} of {chosen} pairs failed, the first with {self.failed[0]['reason']}"
        where = "" if self.folder is None else f"see {self.folder / 'failures.jsonl'}; "
        return f"{failed}: {where}the same command tries them again"

    @property
    def headline(self) -> str:
        """The pairs, in a line."""
        source = self.settings.get("blocks") or self.settings.get("data") or ""
        return f"{self.pairs_in_words} of {Path(source).name}"

    @checked
    def figure(self, distance: Literal["token", "syntactic"] = "token") -> Figure:
        """Pairwise NLL per token against the distance of the two tokens: the tokens between them,
        or the edges between their words in the dependency tree.
        """
        from unmask.studies.evaluation.distance import distance_figure

        figure = distance_figure(self.rows, f"{distance}_distance", self.headline)
        if figure is None:
            raise InputError(f"no pair has a {distance} distance: give texts with parses, .conllu")
        return figure

    # ---- for other programs ----

    def to_dict(self) -> dict[str, Any]:
        """All but the rows, as plain values: what table.json holds, and the command prints as
        JSON. With both schemes each is under its name.
        """
        if self.contiguous is not None:
            of_schemes = zip(BOTH, self._by_scheme, strict=True)
            return {scheme: one.to_dict() for scheme, one in of_schemes}
        return {
            **self.numbers,
            "settings": self.settings,
            "n_failed": len(self.failed),
            "skipped_texts": dict(self.skipped),
            "median_seconds_a_pair": self._median_seconds(),
            **self.provenance,
        }

    def _median_seconds(self) -> float | None:
        """The median time of a pair; None without pairs."""
        from statistics import median

        of_pairs = {row["pair"]: row["seconds"] for row in self.rows}
        if not of_pairs:
            return None
        return float(median(of_pairs.values()))

    def to_frame(self) -> pandas.DataFrame:
        """The table: one row per construction; each measure with its interval, `_low` to
        `_high`. With both schemes a column says which.
        """
        rows = []
        for one in self._by_scheme:
            for row in one.numbers["constructions"]:
                label = label_of(row["construction"])
                rows.append({**row, "label": label, "scheme": one.settings.get("scheme")})
        names = ["construction", "label"]
        if self.contiguous is not None:
            names.insert(0, "scheme")
        return frame_of(
            rows,
            names=names,
            measures=(*HEADINGS, "difference"),
            after=("steps", "objective"),
        )

    def to_markdown(self) -> str:
        """The table for people, with intervals; the lowest number of each column is bold."""
        lines = [*self.about()]
        for one in self._by_scheme:
            if one.rows:
                lines += ["", *one._markdown_rows()]
        if self.tables():
            lines += ["", *self.verdict()]
        return "\n".join(lines) + "\n"

    def _markdown_rows(self) -> list[str]:
        rows = self.numbers["constructions"]
        has_differences = any("difference" in row for row in rows)
        head = ["construction", *HEADINGS.values()]
        if has_differences:
            head.append("P-NLL per token, minus product")
        lowest = {}
        for measure in HEADINGS:
            lowest[measure] = min(row[measure]["value"] for row in rows)
        cells = []
        for row in rows:
            of_row = [label_of(row["construction"])]
            for measure in HEADINGS:
                is_lowest = row[measure]["value"] == lowest[measure]
                of_row.append(cell(row[measure], measure, bold=is_lowest))
            if "difference" in row:
                of_row.append(cell(row["difference"], "difference"))
            elif has_differences:  # the product itself
                of_row.append("0")
            cells.append(of_row)
        return markdown_table(head, cells)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write one file, by its ending: the table as .md or .json, or the rows as .parquet, .csv
        or .jsonl.
        """
        rows = []
        for one in self._by_scheme:
            rows += one.rows
        return write_study(path, self.to_markdown(), self.to_dict(), rows)


def _steps_of(stored: Any) -> int | None:
    """The number of steps after which a construction of stored settings was stopped."""
    if isinstance(stored, str):
        return None
    steps: int | None = stored.get("steps")
    return steps


@checked
def evaluate(
    data: Annotated[PathLike | Sequence[str] | None, CHOICE, Written(metavar="PATH")] = None,
    model: Model = None,
    *,
    blocks: Annotated[PathLike | None, Written(metavar="FILE")] = None,
    scheme: Annotated[Literal["random", "contiguous", "both"] | None, CHOICE] = None,
    pairs: Annotated[Count | None, CHOICE] = None,
    seed: Annotated[Seed, CHOICE] = 0,
    constructions: RulesOrPaper | None = None,
    support: Literal["regular", "all"] | None = None,
    alphabet: Annotated[Alphabet, Only(without=("support",))] = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1
    of Torroba Hennigen & Kim (2023).

    A pair that fails is listed in the result and left out of the table.

    Parameters:
        data: Texts to choose pairs of: a file with one per line, .jsonl, .csv or .tsv with a
            column text, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum.
            In Python also a list of texts.
        blocks: The pairs themselves: JSON Lines with {"text": ..., "block": [i, j]}, indices of
            tokens from 0, the start token included.
        scheme: random (two positions anywhere), contiguous (two adjacent ones), or both, each
            with a table [default: random; both of constructions paper].
        pairs: How many pairs to choose [default: as many as take about a minute on two cores,
            from 2 to 1,000; 1,000 on a GPU].
        seed: Seed of the choice of pairs and of the bootstrap.
        constructions: all, or some constructions of `fill`, such as product,chain; or paper, those
            of Table 1 as published: product, mrf_logit, mrf, hcb, and arnold_gokhale after 50
            steps [default: all].
        support: What joints run over: regular tokens, or all columns of the model's output
            [default: regular; all with constructions paper].

    Returns:
        An `Evaluation`: the table, and the rows behind it.

    >>> texts = ["The cat sat on the mat.", "The dog sat on the bed."]
    >>> words = "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, constructions="product,chain", alphabet=words).n_pairs
    2
    """
    from unmask.models.text.alphabet import alphabet_tokens
    from unmask.studies.evaluation.plan import ChosenPairs, GivenPairs
    from unmask.studies.evaluation.run import Measuring

    as_published = constructions == PAPER
    rules = _rules(constructions)
    if support is None:
        support = "all" if as_published and alphabet is None else "regular"
    settings = {
        "constructions": [_in_settings(rule, lasts=out is not None) for rule in rules],
        "support": support,
        "alphabet": None if alphabet is None else list(alphabet_tokens(alphabet)),
    }
    if scheme is None:
        scheme = "both" if as_published else "random"

    if blocks is not None:
        runs = [_Run(GivenPairs(blocks), _run_folder(out))]
    else:
        texts = _texts(data)
        schemes = BOTH if scheme == "both" else (scheme,)
        runs = []
        for one in schemes:
            part = one if len(schemes) > 1 else ""
            chosen = ChosenPairs(data=texts, scheme=one, count=pairs, seed=seed)
            runs.append(_Run(chosen, _run_folder(out, part)))

    measuring = Measuring(model, rules, settings, engine)
    evaluations = []
    for run in runs:
        plan = measuring.plan(run.pairs)
        if plan.first_try:
            warn(_first_try(plan))
        evaluations.append(_evaluated(measuring, plan, run.folder, progress))
    if len(evaluations) == 1:
        return evaluations[0]
    random, contiguous = evaluations
    return replace(random, contiguous=contiguous)


@dataclass(frozen=True)
class _Run:
    """Pairs that are measured together, and the folder that keeps them, if one does."""

    pairs: ChosenPairs | GivenPairs
    folder: Path | None


def _run_folder(out: PathLike | None, part: str = "") -> Path | None:
    """The folder of a run: `out`, or a part of it where `out` holds several; it is refused if it
    holds anything else.
    """
    if out is None:
        return None
    from unmask.runs.folder import output_folder
    from unmask.studies.evaluation.run import KIND

    return output_folder(user_path(out, "out") / part, KIND)


def _rules(constructions: Any) -> tuple[Construction, ...]:
    """The constructions of a call."""
    if constructions == PAPER:
        return published()
    if constructions is None:
        return all_constructions()
    rules: tuple[Construction, ...] = constructions  # `checked` made objects of names
    return rules


def _in_settings(construction: Construction, lasts: bool) -> Any:
    """What the settings of a run keep of a construction.

    lasts   whether a folder keeps them, from which the run may go on
    """
    try:
        return construction.stored()
    except InputError:  # own code that stands in no file: nothing can go on with it
        if lasts:
            raise
        return construction.name


def _texts(data: PathLike | Sequence[str] | None) -> PathLike | Sequence[str]:
    """The texts to choose pairs of, which are no file of blocks."""
    if data is None:
        either = f"{argument_name('data')}, or {argument_name('blocks')}"
        raise InputError(f"no text was given to evaluate: give {either}")
    if isinstance(data, Sequence) and not isinstance(data, str):
        return data
    path = user_path(data, "data")
    if kind_of(path) == ".jsonl" and path.is_file():
        first = next((record for _, record in records(path) if record), {})
        if "block" in first:
            raise InputError(
                f"{str(path)!r} has blocks",
                argument="data",
                use=f"give it as {argument_name('blocks')}, which measures these",
            )
    return data


def _first_try(plan: Plan) -> str:
    """The warning that a table is of few pairs."""
    enough = argument_name("pairs", ENOUGH_PAIRS)
    return (
        f"{len(plan.pairs)} pairs are a first try: numbers to report take {enough}, best on a GPU"
    )


def _evaluated(
    measuring: Measuring, plan: Plan, folder: Path | None, progress: Progress | None
) -> Evaluation:
    """Measure the pairs of a plan; with a folder those that it does not hold yet, and write the
    table and figures there.
    """
    if folder is None:
        in_memory = measuring.measured(plan, None, progress)
        return _result(in_memory, folder=None)
    from unmask.runs.folder import RunFolder
    from unmask.studies.evaluation.run import KIND

    with RunFolder(folder, KIND, plan.settings) as run:
        measured = measuring.measured(plan, run, progress)
        evaluation = _result(measured, run.path)
        _write(evaluation, run.path)
    return evaluation


def _result(measured: MeasuredPairs, folder: Path | None) -> Evaluation:
    """The result of pairs that were measured."""
    return Evaluation(
        settings=measured.settings,
        rows=measured.rows,
        failed=measured.failed,
        skipped=measured.skipped,
        folder=folder,
    )


def _write(evaluation: Evaluation, folder: Path) -> None:
    """Write failures.jsonl, if a pair failed; and, if one was measured, results.parquet, table.md,
    table.json and figures.
    """
    from unmask.studies.evaluation.distance import DISTANCES, distance_figure
    from unmask.studies.evaluation.stored_rows import write_rows

    failures = folder / "failures.jsonl"
    with writing(failures):
        failures.unlink(missing_ok=True)  # of an earlier evaluation
    if evaluation.failed:
        lines = [as_json(pair, indent=None) + "\n" for pair in evaluation.failed]
        write_atomically(failures, "".join(lines))
    if not evaluation.rows:
        return
    write_rows(folder / "results.parquet", evaluation.rows)
    write_json(folder / "table.json", evaluation.to_dict())
    write_atomically(folder / "table.md", evaluation.to_markdown())
    for column in DISTANCES:
        figure = distance_figure(evaluation.rows, column, evaluation.headline)
        if figure is not None:
            write_atomically(folder / "figures" / f"{column}.png", figure.drawn())
