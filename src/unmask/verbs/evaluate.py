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
"""A value of `constructions`: the constructions of the published table."""
BOTH = ("random", "contiguous")
"""The two schemes of the published table, in its order."""
ENOUGH_PAIRS = 1000
"""How many pairs a table to report needs."""
Count = Annotated[int, Interval(ge=1, le=10_000_000)]
CHOICE = Only(without=("blocks",))
"""Marks the parameters that choose pairs. They cannot be given beside `blocks`, which has the
pairs themselves.
"""

# At run time the type is Any, because the classes that `ShownType` names would load torch.
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
    contiguous   the evaluation of contiguous pairs, if both schemes were asked for; all other
                 fields are then those of the random pairs
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
        """The numbers of the table, as `unmask.studies.evaluation.summary` defines them.

            {"n_pairs": N, "incompatibility": ...,
             "constructions": [{construction, u_ppl, p_ppl, a_kl, g_kl, ...}, ...]}

        Each mean is a dict {"value", "low", "high"} with the ends of its interval.
        """
        if not self.rows:
            return {"n_pairs": 0, "incompatibility": None, "constructions": []}
        from unmask.common.lazy import pandas
        from unmask.studies.evaluation.summary import summarise

        # The seed of the bootstrap. A run on blocks chooses no pairs, so its settings have no seed.
        seed = self.settings.get("seed") or 0
        names = [name_of_stored(one) for one in self.settings["constructions"]]
        return summarise(pandas.DataFrame(self.rows), names, seed)

    @property
    def n_pairs(self) -> int:
        """How many pairs are in the table."""
        return int(self.numbers["n_pairs"])

    @property
    def complete(self) -> bool:
        """Whether no pair failed."""
        return not any(evaluation.failed for evaluation in self._by_scheme)

    @cached_property
    def _by_scheme(self) -> list[Evaluation]:
        """An evaluation for each scheme, in the order of BOTH: each has `contiguous` None, so
        that its methods are about its own pairs only.
        """
        if self.contiguous is None:
            return [self]
        random = replace(self, contiguous=None)
        return [random, self.contiguous]

    # ---- what a person sees ----

    @property
    def pairs_in_words(self) -> str:
        """How many pairs of which scheme: "12 random pairs"."""
        pairs = "pair" if self.n_pairs == 1 else "pairs"
        return f"{self.n_pairs:,} {self.settings.get('scheme') or 'given'} {pairs}"

    def about(self) -> list[str]:
        """The pairs, the model and the settings that decide the numbers: a line for each scheme."""
        return [evaluation._caption() for evaluation in self._by_scheme]

    def _caption(self) -> str:
        """The line of one scheme: its pairs, the model and the settings that decide the numbers."""
        settings = self.settings
        parts = [f"{self.pairs_in_words} of {self._source}", f"model {settings['model']}"]
        if settings.get("seed") is not None:
            parts.append(f"seed {settings['seed']}")
        for construction in settings["constructions"]:
            steps = _steps_of(construction)
            if steps is not None:
                label = label_of(name_of_stored(construction))
                parts.append(f"{label} stopped after {steps} steps")
        if settings.get("alphabet"):
            parts.append(f"over {len(settings['alphabet'])} tokens of an alphabet")
        elif settings.get("support") == "all":
            parts.append("over every output column")
        parts.append(f"{settings.get('dtype')} on {settings.get('device')}")
        if self.failed:
            parts.append(f"{len(self.failed)} pairs failed and are not in the table")
        return "; ".join(parts) + "."

    @property
    def _source(self) -> str | None:
        """The file of blocks, or the texts that the pairs were chosen of."""
        source: str | None = self.settings.get("blocks", self.settings.get("data"))
        return source

    def tables(self) -> list[Table]:
        """For each scheme a table with a row per construction."""
        return [evaluation._table() for evaluation in self._by_scheme if evaluation.rows]

    def _table(self) -> Table:
        """The table of one scheme: means alone, and the difference with its interval."""
        columns = [Column(self.pairs_in_words, text=True)]
        for measure, heading in HEADINGS.items():
            show_mean = partial(written, measure=measure)
            columns.append(Column(heading, show=show_mean))
        show_with_interval = partial(cell, measure="difference")
        columns.append(Column("P-NLL per token\nminus product", show=show_with_interval))
        rows = []
        for row in self.numbers["constructions"]:
            means = [row[measure]["value"] for measure in HEADINGS]
            difference = row.get("difference", "")  # the product's cell is empty
            rows.append([label_of(row["construction"]), *means, difference])
        return Table(columns, rows)

    def verdict(self) -> list[str]:
        """Which construction predicts the pairs best, how to read the numbers, how compatible the
        conditionals are, and what is approximate.
        """
        if not self.tables():
            return []
        best = []
        for evaluation in self._by_scheme:
            if evaluation.rows:
                of_scheme = self._of_scheme(evaluation)
                best.append(evaluation._best_construction(of_scheme))
        return [*best, *self._how_to_read(), *self._not_converged()]

    def _of_scheme(self, evaluation: Evaluation) -> str:
        """Words for a sentence about the pairs of one of two schemes, such as " of 12 random
        pairs"; "" if there is one scheme only.
        """
        if self.contiguous is None:
            return ""
        return f" of {evaluation.pairs_in_words}"

    def _best_construction(self, of_scheme: str) -> str:
        """Which construction has the lowest P-PPL, and whether it is lower than the product's.

        of_scheme   words of `_of_scheme`, which follow "P-PPL"
        """
        best = min(self.numbers["constructions"], key=lambda row: row["p_ppl"]["value"])
        sentence = f"Lowest P-PPL{of_scheme}: {label_of(best['construction'])}"
        difference = best.get("difference")
        if difference is None:  # the product is the best, or was not measured
            return f"{sentence}."
        if difference["high"] is None:  # a single pair, or a mean that is not finite
            return f"{sentence}."
        if difference["high"] < 0:
            return f"{sentence}, significantly lower than the product's."
        return f"{sentence}, not significantly lower than the product's."

    def _how_to_read(self) -> list[str]:
        """What the numbers mean, and the incompatibility of the conditionals for each scheme."""
        sentences = [
            "Lower is better. In brackets: 95 % bootstrap intervals over pairs.",
            "The MLM's U-PPL is that of its own unary conditionals.",
        ]
        for evaluation in self._by_scheme:
            if not evaluation.rows:
                continue
            of_scheme = self._of_scheme(evaluation)
            incompatibility = cell(evaluation.numbers["incompatibility"], "incompatibility")
            sentences.append(
                f"Incompatibility of the conditionals{of_scheme} in nats, root mean square"
                f" (0: one joint has both): {incompatibility}."
            )
        return sentences

    def _not_converged(self) -> list[str]:
        """A sentence that lists the constructions that did not converge; none if all did."""
        phrases = []
        for evaluation in self._by_scheme:
            phrases += evaluation._not_converged_phrases()
        if not phrases:
            return []
        return [f"Not converged, so that these rows are approximate: {', '.join(phrases)}."]

    def _not_converged_phrases(self) -> list[str]:
        """Phrases such as "Arnold-Gokhale on 3 of 12 random pairs", for one scheme.

        A construction that was to stop after a given number of steps is not among them.
        """
        stopped = set()
        for construction in self.settings["constructions"]:
            if _steps_of(construction) is not None:
                stopped.add(name_of_stored(construction))
        phrases = []
        for row in self.numbers["constructions"]:
            name = row["construction"]
            count = row["not_converged"]
            if count > 0 and name not in stopped:
                phrases.append(f"{label_of(name)} on {count} of {self.pairs_in_words}")
        return phrases

    def notices(self) -> list[str]:
        """Where the files are, which texts were skipped, and how many pairs failed."""
        lines = []
        for evaluation in self._by_scheme:
            if evaluation.rows:
                lines.append(place_of("intervals, rows and figures", evaluation.folder))
            lines += skipped_in_words(evaluation.skipped)
            if evaluation.failed:
                lines.append(evaluation._failures_in_words())
        # Both schemes may give the same line, for example that nothing is kept.
        return list(dict.fromkeys(lines))

    def _failures_in_words(self) -> str:
        """How many pairs of one scheme failed, why the first did, and where all are listed."""
        count = len(self.failed)
        chosen = self.n_pairs + count
        failed = f"{count} of {chosen} pairs failed, the first with {self.failed[0]['reason']}"
        see = ""
        if self.folder is not None:
            see = f"see {self.folder / 'failures.jsonl'}; "
        return f"{failed}: {see}the same command tries them again"

    @property
    def headline(self) -> str:
        """The pairs, in a line."""
        source = self._source or ""
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
        """The numbers and the settings, without the rows, as plain values.

        The file table.json has them, and the command prints them as JSON. With both schemes each
        is under its name.
        """
        if self.contiguous is not None:
            random, contiguous = self._by_scheme
            return {"random": random.to_dict(), "contiguous": contiguous.to_dict()}
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

        seconds_of_pair = {}
        for row in self.rows:  # a pair has the same seconds in the rows of all constructions
            seconds_of_pair[row["pair"]] = row["seconds"]
        if not seconds_of_pair:
            return None
        return float(median(seconds_of_pair.values()))

    def to_frame(self) -> pandas.DataFrame:
        """The table, with one row per construction.

        Each measure has three columns, such as p_ppl, p_ppl_low and p_ppl_high. With both schemes
        a first column names the scheme.
        """
        rows = []
        for evaluation in self._by_scheme:
            scheme = evaluation.settings.get("scheme")
            for row in evaluation.numbers["constructions"]:
                label = label_of(row["construction"])
                rows.append({**row, "label": label, "scheme": scheme})
        names = ["construction", "label"]
        if self.contiguous is not None:  # `frame_of` drops keys that it is not asked for
            names = ["scheme", *names]
        return frame_of(
            rows,
            names=names,
            measures=(*HEADINGS, "difference"),
            after=("steps", "objective"),
        )

    def to_markdown(self) -> str:
        """The table for people, with intervals; the lowest number of each column is bold."""
        lines = self.about()
        for evaluation in self._by_scheme:
            if evaluation.rows:
                lines += ["", *evaluation._markdown_lines()]
        if self.tables():
            lines += ["", *self.verdict()]
        return "\n".join(lines) + "\n"

    def _markdown_lines(self) -> list[str]:
        """The lines of the table of one scheme."""
        rows = self.numbers["constructions"]
        lowest = {}
        for measure in HEADINGS:
            lowest[measure] = min(row[measure]["value"] for row in rows)
        head = ["construction", *HEADINGS.values()]
        table = []
        for row in rows:
            cells = [label_of(row["construction"])]
            for measure in HEADINGS:
                is_lowest = row[measure]["value"] == lowest[measure]
                cells.append(cell(row[measure], measure, bold=is_lowest))
            table.append(cells)
        if any("difference" in row for row in rows):  # the product was measured, and another one
            head.append("P-NLL per token, minus product")
            for row, cells in zip(rows, table, strict=True):
                if "difference" in row:
                    cells.append(cell(row["difference"], "difference"))
                else:  # the product itself
                    cells.append("0")
        return markdown_table(head, table)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write one file, by its ending: the table as .md or .json, or the rows as .parquet, .csv
        or .jsonl.
        """
        rows = []
        for evaluation in self._by_scheme:
            rows += evaluation.rows
        return write_study(path, self.to_markdown(), self.to_dict(), rows)


def _steps_of(construction: str | dict[str, Any]) -> int | None:
    """The number of steps after which a construction was to stop; None if it has no such option.

    construction   as settings have it: its name, or a dict of its name and its options
    """
    if isinstance(construction, str):
        return None
    steps: int | None = construction.get("steps")
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
    from unmask.studies.evaluation.plan import GivenPairs
    from unmask.studies.evaluation.run import Measuring

    as_published = constructions == PAPER
    if support is None:
        support = "regular"
        if as_published and alphabet is None:  # with an alphabet, joints run over its tokens
            support = "all"
    if scheme is None:
        scheme = "both" if as_published else "random"

    rules = _rules(constructions)
    is_kept = out is not None
    settings = {
        "constructions": [_in_settings(rule, is_kept) for rule in rules],
        "support": support,
        "alphabet": None,
    }
    if alphabet is not None:
        settings["alphabet"] = list(alphabet_tokens(alphabet))

    if blocks is not None:
        runs = [_Run(pairs=GivenPairs(blocks), folder=_run_folder(out))]
    else:
        runs = _runs_on_texts(data, scheme=scheme, count=pairs, seed=seed, out=out)

    measuring = Measuring(model, rules, settings, engine)
    evaluations = []
    for run in runs:
        plan = measuring.plan(run.pairs)
        if plan.first_try:
            warn(_first_try(plan))
        evaluations.append(_evaluated(measuring, plan, run.folder, progress))
    if len(evaluations) == 1:
        return evaluations[0]
    random, contiguous = evaluations  # in the order of BOTH
    return replace(random, contiguous=contiguous)


@dataclass(frozen=True)
class _Run:
    """Pairs that are measured together, and the folder that keeps them; None: no folder does."""

    pairs: ChosenPairs | GivenPairs
    folder: Path | None


def _runs_on_texts(
    data: PathLike | Sequence[str] | None,
    *,
    scheme: str,
    count: int | None,
    seed: int,
    out: PathLike | None,
) -> list[_Run]:
    """The run of a scheme; if the scheme is "both", a run for each of BOTH, in its order.

    Arguments are those of `evaluate`; `count` is its `pairs`.
    """
    from unmask.studies.evaluation.plan import ChosenPairs

    texts = _texts(data)
    if scheme != "both":
        pairs = ChosenPairs(data=texts, scheme=scheme, count=count, seed=seed)
        return [_Run(pairs=pairs, folder=_run_folder(out))]
    runs = []
    for one_scheme in BOTH:
        pairs = ChosenPairs(data=texts, scheme=one_scheme, count=count, seed=seed)
        folder = _run_folder(out, subfolder=one_scheme)
        runs.append(_Run(pairs=pairs, folder=folder))
    return runs


def _run_folder(out: PathLike | None, subfolder: str = "") -> Path | None:
    """The folder of a run: `out` itself, or a subfolder of it; None if nothing is kept.

    A folder that holds anything but a run of `evaluate` is refused.
    """
    if out is None:
        return None
    from unmask.runs.folder import output_folder
    from unmask.studies.evaluation.run import KIND

    return output_folder(user_path(out, "out") / subfolder, KIND)


def _rules(constructions: Any) -> tuple[Construction, ...]:
    """The constructions of a call; all, if it names none."""
    if constructions == PAPER:
        return published()
    if constructions is None:
        return all_constructions()
    rules: tuple[Construction, ...] = constructions  # `checked` made objects of names
    return rules


def _in_settings(construction: Construction, is_kept: bool) -> Any:
    """A construction as the settings of a run have it: its name, or a dict of its name and its
    options.

    is_kept   whether a folder keeps the settings; the construction must then be one that a
              resumed run can build again
    """
    try:
        return construction.stored()
    except InputError:  # the user's code is in no file, so a later run cannot load it
        if is_kept:
            raise
        return construction.name


def _texts(data: PathLike | Sequence[str] | None) -> PathLike | Sequence[str]:
    """The texts to choose pairs of. A file of blocks is refused."""
    if data is None:
        either = f"{argument_name('data')}, or {argument_name('blocks')}"
        raise InputError(f"no text was given to evaluate: give {either}")
    if isinstance(data, Sequence) and not isinstance(data, str):
        return data
    path = user_path(data, "data")
    record = {}
    if kind_of(path) == ".jsonl" and path.is_file():
        record = _first_record(path)
    if "block" in record:
        raise InputError(
            f"{str(path)!r} has blocks",
            argument="data",
            use=f"give it as {argument_name('blocks')}, which measures these",
        )
    return data


def _first_record(path: Path) -> dict[str, Any]:
    """The first record of a file that is not empty; {} if there is none."""
    for _, record in records(path):
        if record:
            return record
    return {}


def _first_try(plan: Plan) -> str:
    """The warning that a table is of few pairs."""
    enough = argument_name("pairs", ENOUGH_PAIRS)
    return (
        f"{len(plan.pairs)} pairs are a first try: numbers to report take {enough}, best on a GPU"
    )


def _evaluated(
    measuring: Measuring, plan: Plan, folder: Path | None, progress: Progress | None
) -> Evaluation:
    """Measure the pairs of a plan.

    With a folder, only the pairs that it does not hold yet are measured, and the table and the
    figures of all pairs are written there.
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
