"""The verb `score`: numbers of texts, words or tokens under named definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, ShownType, Written
from unmask.common.checks import whole
from unmask.common.errors import InputError, argument_name
from unmask.common.excerpts import around_blanks
from unmask.common.formats import in_form
from unmask.common.result_tables import Column, Table
from unmask.common.results import LONGEST_HEADING, Result
from unmask.models.load import Model
from unmask.runs.lines import EMPTY
from unmask.runs.progress import Progress
from unmask.scoring.registry import DEFAULT, SEVERAL, definitions, each_once
from unmask.scoring.scores.score import SCORES, Score
from unmask.verbs import Engine, Out

if TYPE_CHECKING:
    import pandas

    from unmask.scoring.row_shape import Rows, RowShape
    from unmask.scoring.scored_rows import ScoredRows

Unit = Literal["nats", "bits"]
Long = Literal["refuse", "windows"]
Format = Annotated[Literal["jsonl", "csv", "parquet"] | None, Only(beside=("out",))]
Sink = Callable[[Mapping[str, Any]], None]
if TYPE_CHECKING:
    ScoredTexts = str | Path | Iterable[str | Mapping[str, Any]]
else:  # lists of any length, iterators, data frames
    ScoredTexts = Annotated[
        Any,
        ShownType("str | Path | Iterable[str | Mapping[str, Any]]"),
        Written(metavar="TEXT...|-", repeat=True),
    ]
OF_TEXTS = ("texts", "nested")
"""The kinds of rows of which there is one for each text."""
MOST_SHOWN = 100  # rows in tables
HIDDEN = ("id", "reason", "position")
"""Columns that the tables leave out."""
GAP = "-"
"""Shown in the place of a token that only the other text has."""
NO_ERROR = ""
"""Shown for a score that states no standard error."""
SMALLEST = 5e-4
"""The smallest difference, in the unit of the scores, that is called one: a smaller one is 0.000
in a table, and rounding in float32 may be as large.
"""
ERRORS = 2
"""Standard errors by which sampled scores must differ, to be significantly different."""


class OfScores(Result):
    """A result with the scores and the unit of a shape."""

    shape: RowShape

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """Of each score by name: its definition, whether it is a probability, and which values
        are better.
        """
        return definitions(self.shape.scores)

    @property
    def unit(self) -> str:
        """nats or bits."""
        return self.shape.unit

    def about(self) -> list[str]:
        """The scores, whether each is a probability, which values are better, and the unit."""
        names = []
        for score in self.shape.scores:
            kind = "a probability" if score.probability else "not a probability"
            names.append(f"{score.name} ({kind}; {score.direction})")
        return [f"{', '.join(names)}; in {self.unit}"]

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints as JSON."""
        return {**super().to_dict(), "verdict": self.verdict()}


@dataclass(frozen=True, repr=False)
class Scores(OfScores):
    """The rows of a call of `unmask.score`, one per text, word or token, as mappings; a
    notebook shows them as a table.

    `len`, `for` and `[place]` are those of `rows`. The rows of a run folder are read from it
    when they are first used.

    scored   the rows and their shape, in memory or in a folder

    >>> scores = unmask.score(["The keys are here.", "The keys is here."], rows="nested")
    >>> len(scores), scores[0]["pll"] > scores[1]["pll"]
    (2, True)
    >>> most = max(scores.difference(), key=lambda row: row["pll_difference"])
    >>> most["first_token"], most["second_token"]
    ('are', 'is')
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "rows")

    scored: ScoredRows

    @property
    def shape(self) -> RowShape:  # type: ignore[override]  # read from the rows
        """The scores, what a row is, and its unit."""
        return self.scored.shape

    @property
    def folder(self) -> Path | None:
        """Where the run is kept, if it is."""
        return self.scored.folder

    @property
    def rows(self) -> Rows:
        """All rows, in the order of the texts."""
        return self.scored.rows

    @property
    def missing(self) -> dict[int, str]:
        """Why texts lack a number, by the number of the text, from 1."""
        return self.scored.missing.reasons

    @property
    def complete(self) -> bool:
        """Whether something was scored, and all texts that are not empty lines were."""
        return self.scored.missing.complete

    def about(self) -> list[str]:
        """The scores, and how many rows are shown if not all are."""
        sentences = super().about()
        if len(self._first_rows) > MOST_SHOWN:
            sentences.append(f"the first {MOST_SHOWN} rows are shown")
        return sentences

    def tables(self) -> list[Table]:
        """The first rows: of nested ones a table for each text, and of two texts how much more of
        each score a token of the first has.
        """
        shown = self._first_rows[:MOST_SHOWN]
        if self.shape.kind != "nested":
            return [self._table_of_rows(shown)] if shown else []
        tables = [self._table_of_text(self.shape.ours(row)) for row in shown]
        if self._compares and self.by_token():
            tables.append(self._table_of_difference())
        return tables

    def verdict(self) -> list[str]:
        """Of two texts, which one is better by each score; of other numbers of texts nothing."""
        if not self._compares:
            return []
        first, second = (self.shape.ours(row) for row in self._first_rows)
        sentences = []
        for score in self.shape.scores:
            comparison = _comparison(score, first, second, self.unit)
            sentences.append(f"{score.name}: {comparison}")
        return sentences

    def notices(self) -> list[str]:
        """How many texts lack a number, and where the rows are kept."""
        return notices_of("text", self.missing, self.scored.file)

    @cached_property
    def _first_rows(self) -> Rows:
        """The rows that are shown, and one more if there are more; a folder may hold millions."""
        return self.scored.leading(MOST_SHOWN + 1)

    @property
    def _compares(self) -> bool:
        """Whether the rows are two texts, which are compared."""
        return self.shape.kind in OF_TEXTS and len(self._first_rows) == 2

    def _table_of_rows(self, rows: Rows) -> Table:
        """One row for each text, word or token."""
        hidden = {self.shape.own(column) for column in HIDDEN}
        names = [name for name in rows[0] if name not in hidden]
        text = self.shape.own("text")
        if text in names:  # first: a long text is folded in the first column alone
            names.remove(text)
            names.insert(0, text)
        first, *others = names
        columns = [Column(first, text=True)]
        columns += [Column(name) for name in others]
        cells = []
        for row in rows:
            cells.append([_writable(row[name]) for name in names])
        return Table(columns, cells)

    def _table_of_text(self, row: Mapping[str, Any]) -> Table:
        """The scores of a text, each with its share per token and its standard error.

        row   its row, with our columns under our names
        """
        rows = []
        for score in self.shape.scores:
            value = row[score.name]
            per_token = None if value is None else value / row["length"]
            rows.append([score.name, value, per_token])
        n_tokens = "1 token" if row["length"] == 1 else f"{row['length']:,} tokens"
        columns = [Column(n_tokens, text=True), Column(self.unit), Column("per token")]
        errors = [_standard_error(score, row) for score in self.shape.scores]
        if any(error is not None for error in errors):
            columns.append(Column("error", show=_error_in_words))
            for cells, error in zip(rows, errors, strict=True):
                cells.append(NO_ERROR if error is None else error)
        title = around_blanks(_writable(row["text"]), LONGEST_HEADING)
        return Table(columns, rows, title=title)

    def _table_of_difference(self) -> Table:
        """How much more of each score a token of the first text has than that of the second."""
        scores = self.by_token()
        rows: list[list[Any]] = []
        for row in self.difference():
            tokens = [row["first_token"] or GAP, row["second_token"] or GAP]
            if tokens[0] == tokens[1]:
                del tokens[1]  # the same token is shown once
            differences = [row[f"{score.name}_difference"] for score in scores]
            rows.append([" / ".join(tokens), *differences])
        columns = [Column("first / second", text=True)]
        columns += [Column(score.name, show=in_form("+.3f")) for score in scores]
        title = f"first minus second, token by token ({self.unit})"
        return Table(columns, rows, title=title)

    def by_token(self, first: int = 0, second: int = 1) -> list[Score]:
        """The scores that are sums over tokens, and that both texts have: those of `difference`."""
        rows = [self._row_of_text("first", first), self._row_of_text("second", second)]
        return [
            score
            for score in self.shape.scores
            if score.by_token and all(self._value(row, score) is not None for row in rows)
        ]

    def difference(self, first: int = 0, second: int = 1) -> Rows:
        """Two texts token by token, and how much more of each score the first's token has;
        needs `rows="nested"`.

        Rows have first_token and second_token (None for a gap), and NAME_difference for each
        score of `by_token`.
        """
        from unmask.scoring.token_differences import token_differences

        first_row = self._row_of_text("first", first)
        second_row = self._row_of_text("second", second)
        self._refuse_without_tokens(first_row, first)
        self._refuse_without_tokens(second_row, second)
        tokens = self.shape.own("tokens")
        scores = self.by_token(first, second)
        return token_differences(first_row[tokens], second_row[tokens], scores)

    def _row_of_text(self, argument: str, place: int) -> dict[str, Any]:
        """The row of one of the texts, counted from 0; raises if rows are of words or tokens,
        or there is no such text.
        """
        if self.shape.kind not in OF_TEXTS:
            raise InputError(
                f"rows are of {self.shape.kind}, and texts are compared",
                use=f"give score {argument_name('rows', 'nested')}",
            )
        if not self.rows:
            raise InputError("there are no rows in memory: they went to sink")
        if len(self.rows) == 1 and place == 1:
            raise InputError("there is one text, and two are compared: give two texts to score")
        return self.rows[whole(argument, place, 0, len(self.rows) - 1)]

    def _refuse_without_tokens(self, row: Mapping[str, Any], place: int) -> None:
        """Raise for a row without tokens, or without a single score."""
        if self.shape.kind != "nested":
            raise InputError(
                "the rows hold no tokens", use=f"give score {argument_name('rows', 'nested')}"
            )
        if all(self._value(row, score) is None for score in self.shape.scores):
            reason = row[self.shape.own("reason")]
            raise InputError(f"text {place + 1} has no score ({reason}): give two texts that have")

    def _value(self, row: Mapping[str, Any], score: Score) -> float | None:
        """A score of a text; None if the text lacks it."""
        value: float | None = row[self.shape.own(score.name)]
        return value

    def to_frame(self) -> pandas.DataFrame:
        """One row per text, word or token; half of a surrogate pair, which pandas cannot hold,
        is escaped.
        """
        from unmask.common.lazy import pandas

        names = list(self.shape.types)
        try:
            return pandas.DataFrame(self.rows, columns=names)
        except UnicodeEncodeError:
            escaped = [{name: _writable(value) for name, value in row.items()} for row in self.rows]
            return pandas.DataFrame(escaped, columns=names)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    def __repr__(self) -> str:
        names = ", ".join(score.name for score in self.shape.scores)
        return f"Scores({names}; {len(self)} {self.shape.kind})"


@checked
def score(
    texts: ScoredTexts,
    score: Annotated[str | Score | Iterable[str | Score], SEVERAL, Written(short="-s")] = DEFAULT,
    *,
    model: Model = None,
    rows: Annotated[
        Literal["texts", "words", "tokens", "nested"], Written(typed="nested")
    ] = "texts",
    unit: Unit = "nats",
    long: Long = "refuse",
    field: str | None = None,
    out: Out = None,
    format: Format = None,
    engine: Engine = "local",
    sink: Annotated[Sink | None, Only(without=("out",))] = None,
    progress: Progress | None = None,
) -> Scores:
    """Score sentences: pseudo-likelihoods, chain rules over orders, energies.

    With out, rows are kept in that folder as they come, the same call continues after an
    interrupt, and at the end there is scores.jsonl, scores.csv or scores.parquet (format).

    Parameters:
        texts: Sentences, of which two are compared token by token; - for standard input. In
            Python a Path is a file with one text per line, .jsonl, .csv, .tsv or .fasta, and
            everything else texts: one, several, mappings, a data frame.
        score: Names: {names}; or a class of your own,
            my.py:Mine. In Python also objects, such as unmask.AnyOrder(orders=32).
        rows: A row per text (texts), word (words) or token (tokens), or a text with its words
            and tokens (nested).
        unit: nats or bits.
        long: Texts longer than the model: refuse (a row with a reason) or windows.
        field: The column of a table or frame, or the key of JSON lines, that holds the text;
            with it, standard input has JSON lines [default: text, or sentence].
        format: The format of the file in out: jsonl, csv or parquet [default: jsonl].
        sink: Called with each row as it comes; rows are then not kept in memory.

    Returns:
        `Scores`, a row for each text, word or token.

    >>> texts = ["The cats sit here.", "The cats sits here."]
    >>> scores = unmask.score(texts, ["pll", unmask.AnyOrder(orders=32)])
    >>> scores.rows[0]["pll"] > scores.rows[1]["pll"]
    True
    """
    from unmask.runs.folder import output_folder
    from unmask.scoring.items import items_again
    from unmask.scoring.row_files import check_format
    from unmask.scoring.run import KIND, score_items

    shape = shape_of_rows(score, rows, unit, long)
    written_as = format or "jsonl"
    check_format(written_as, rows, on_stream=False)
    if out is None:
        refuse_workers(model, engine)
        folder = None
    else:
        folder = output_folder(out, KIND)
    scored = score_items(
        model,
        shape,
        items_again(texts, field, keep=out is not None),
        out=folder,
        format=written_as,
        engine=engine,
        sink=sink,
        progress=progress,
    )
    return Scores(scored)


def shape_of_rows(
    score: str | Score | Iterable[str | Score], rows: str, unit: str, long: str
) -> RowShape:
    """The scores of a call, what a row is, and its unit; raises for scores that cannot have such
    rows, or windows.

    score   `checked` has made objects of the names
    """
    from unmask.scoring.row_shape import RowShape, check_rows

    scores = each_once(cast("Sequence[Score]", score))
    check_rows(scores, rows)
    in_windows = long == "windows"
    if in_windows and not any(one.windows for one in scores):
        names = ", ".join(one.name for one in scores)
        with_windows = [name for name, kind in SCORES.items() if cast(Any, kind).windows]
        raise InputError(
            f"{long} is not used by {names}",
            argument="long",
            use=f"leave it out, or name scores that have windows ({', '.join(with_windows)})",
        )
    return RowShape(scores, kind=rows, unit=unit, windows=in_windows)


def notices_of(what: str, missing: Mapping[int, str], file: Path | None) -> list[str]:
    """How many texts, or pairs, lack a score, why the first of them does, and where the rows are.

    what      text or pair
    missing   the reason of each, by its number from 1; empty lines count if nothing else lacks
              a score
    """
    sentences = []
    failed = {place: reason for place, reason in missing.items() if reason != EMPTY}
    lacking = failed or missing
    if lacking:
        place = next(iter(lacking))
        lack = f"1 {what} lacks" if len(lacking) == 1 else f"{len(lacking):,} {what}s lack"
        sentences.append(f"{lack} a score, the first is {what} {place}: {lacking[place]}")
    if file is not None:
        sentences.append(f"rows are in {file}")
    return sentences


def refuse_workers(model: Model, engine: str) -> None:
    """Raise if workers would share the work of a call without a folder, where their rows are
    kept.
    """
    from unmask.models.sharing import is_shared

    if is_shared(model, engine):
        raise InputError(
            "workers need a folder, where their rows are kept", use=f"give {argument_name('out')}"
        )


def _comparison(
    score: Score, first: Mapping[str, Any], second: Mapping[str, Any], unit: str
) -> str:
    """Which of two texts is better by a score, in words.

    first, second   the rows of the texts, with our columns under our names
    """
    of_first = first[score.name]
    of_second = second[score.name]
    if of_first is None:
        return "the first text has none"
    if of_second is None:
        return "the second text has none"
    if of_first == of_second:
        return "the two texts are equal"
    difference = abs(of_first - of_second)
    if difference < SMALLEST:
        return f"the two texts differ by less than {SMALLEST} {unit}"
    first_is_better = score.better * of_first > score.better * of_second
    better = "first" if first_is_better else "second"
    comparison = f"the {better} text is better by {difference:.3f} {unit} ({score.direction})"
    error_of_first = _standard_error(score, first) or 0.0
    error_of_second = _standard_error(score, second) or 0.0
    # Each text has a seed of its own, so the errors are independent.
    error = hypot(error_of_first, error_of_second)
    if error == 0:  # both are exact
        return comparison
    comparison += f", with a standard error of {error:.3f}"
    if difference < ERRORS * error:
        comparison += ": not a significant difference"
    return comparison


def _standard_error(score: Score, row: Mapping[str, Any]) -> float | None:
    """The standard error of a text's score: 0 if it is exact, None if the score states none."""
    error: float | None = row.get(f"{score.name}_se")
    return error


def _error_in_words(error: float) -> str:
    """A standard error."""
    return f"± {error:.3f}" if error else "exact"


def _writable(value: Any) -> Any:
    """A text with halves of surrogate pairs escaped; any other value as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
