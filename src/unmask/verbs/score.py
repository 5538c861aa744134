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
ROW_PER_TEXT = ("texts", "nested")
"""The kinds of rows with one row for each text."""
MOST_SHOWN = 100  # rows in tables
HIDDEN = ("id", "reason", "position")
"""Columns that the tables leave out."""
GAP = "-"
"""Shown in the place of a token that only the other text has."""
NOT_STATED = ""
"""Shown as the standard error of a score that states none."""
SMALLEST_DIFFERENCE = 5e-4
"""A difference of two scores below this, in their unit, has no number in the verdict. A table
would show it as 0.000, and rounding in float32 may be as large.
"""
SIGNIFICANT_ERRORS = 2
"""Sampled scores differ significantly if they differ by this many standard errors."""


class OfScores(Result):
    """A result whose `shape` holds the scores of a call and their unit."""

    shape: RowShape

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """By the name of each score: its definition, whether it is a probability, and which
        values are better.
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
    def shape(self) -> RowShape:  # type: ignore[override]  # an attribute in the base class
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
        """The first rows in one table. Nested rows have a table for each text; two nested texts
        also have a table of their difference, token by token.
        """
        shown = self._first_rows[:MOST_SHOWN]
        if self.shape.kind != "nested":
            return [self._table_of_rows(shown)] if shown else []
        tables = []
        for row in shown:
            tables.append(self._table_of_text(self._with_our_names(row)))
        if self._compares:
            compared_scores = self.by_token()
            if compared_scores:
                tables.append(self._table_of_difference(compared_scores))
        return tables

    def verdict(self) -> list[str]:
        """For each score a sentence that says which of two texts is better; nothing for more
        texts, or one.
        """
        if not self._compares:
            return []
        first, second = (self._with_our_names(row) for row in self._first_rows)
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
        return self.shape.kind in ROW_PER_TEXT and len(self._first_rows) == 2

    def _name_in_rows(self, column: str) -> str:
        """The name that a column of ours has in the rows: it has another one, unmask_NAME, if the
        user's table has a column of its name.
        """
        return self.shape.own(column)

    def _with_our_names(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row that are ours, each under the name that it has without columns of
        the user.
        """
        return self.shape.ours(row)

    def _table_of_rows(self, rows: Rows) -> Table:
        """One row for each text, word or token."""
        hidden = {self._name_in_rows(column) for column in HIDDEN}
        names = [name for name in rows[0] if name not in hidden]
        text = self._name_in_rows("text")
        if text in names:  # it becomes the first column: only there a long text is folded
            names.remove(text)
            names.insert(0, text)
        columns = [Column(names[0], text=True)]
        columns += [Column(name) for name in names[1:]]
        table_rows = []
        for row in rows:
            cells = [_writable(row[name]) for name in names]
            table_rows.append(cells)
        return Table(columns, table_rows)

    def _table_of_text(self, row: Mapping[str, Any]) -> Table:
        """The scores of a text, each with its share per token, and its standard error if one of
        them states it.

        row   the text's row, as `_with_our_names` returns it
        """
        length = row["length"]
        n_tokens = "1 token" if length == 1 else f"{length:,} tokens"
        columns = [Column(n_tokens, text=True), Column(self.unit), Column("per token")]
        errors = [_standard_error(score, row) for score in self.shape.scores]
        states_errors = any(error is not None for error in errors)
        if states_errors:
            columns.append(Column("error", show=_error_in_words))
        rows = []
        for score, error in zip(self.shape.scores, errors, strict=True):
            value = row[score.name]
            per_token = None if value is None else value / length
            cells = [score.name, value, per_token]
            if states_errors:
                cells.append(NOT_STATED if error is None else error)
            rows.append(cells)
        title = around_blanks(_writable(row["text"]), LONGEST_HEADING)
        return Table(columns, rows, title=title)

    def _table_of_difference(self, scores: Sequence[Score]) -> Table:
        """How much more of each score a token of the first text has than that of the second.

        scores   those of `by_token`
        """
        rows: list[list[Any]] = []
        for row in self.difference():
            first = row["first_token"] or GAP
            second = row["second_token"] or GAP
            tokens = first if first == second else f"{first} / {second}"
            differences = [row[f"{score.name}_difference"] for score in scores]
            rows.append([tokens, *differences])
        columns = [Column("first / second", text=True)]
        columns += [Column(score.name, show=in_form("+.3f")) for score in scores]
        title = f"first minus second, token by token ({self.unit})"
        return Table(columns, rows, title=title)

    def by_token(self, first: int = 0, second: int = 1) -> list[Score]:
        """The scores that `difference` compares: sums over tokens that both texts have."""
        first_row = self._row_of_text("first", first)
        second_row = self._row_of_text("second", second)
        scores = []
        for score in self.shape.scores:
            first_has_it = self._value(first_row, score) is not None
            second_has_it = self._value(second_row, score) is not None
            if score.by_token and first_has_it and second_has_it:
                scores.append(score)
        return scores

    def difference(self, first: int = 0, second: int = 1) -> Rows:
        """Two texts token by token, and how much more of each score the first's token has;
        needs `rows="nested"`.

        Rows have first_token and second_token (None for a gap), and NAME_difference for each
        score of `by_token`.
        """
        from unmask.scoring.token_differences import token_differences

        first_row = self._row_of_text("first", first)
        second_row = self._row_of_text("second", second)
        self._refuse_incomparable(first_row, first)
        self._refuse_incomparable(second_row, second)
        tokens = self._name_in_rows("tokens")
        scores = self.by_token(first, second)
        return token_differences(first_row[tokens], second_row[tokens], scores)

    def _row_of_text(self, argument: str, place: int) -> dict[str, Any]:
        """The row of a text; raises if rows are of words or tokens, or there is no such text.

        argument   the name of the argument that held `place`
        place      the number of the text, from 0
        """
        if self.shape.kind not in ROW_PER_TEXT:
            raise InputError(
                f"rows are of {self.shape.kind}, and texts are compared",
                use=f"give score {argument_name('rows', 'nested')}",
            )
        if not self.rows:
            raise InputError("there are no rows in memory: they went to sink")
        if len(self.rows) == 1 and place == 1:  # the default of `second`
            raise InputError("there is one text, and two are compared: give two texts to score")
        number = whole(argument, place, least=0, most=len(self.rows) - 1)
        return self.rows[number]

    def _refuse_incomparable(self, row: Mapping[str, Any], place: int) -> None:
        """Raise for a row without tokens, or without a single score.

        place   the number of the text, from 0
        """
        if self.shape.kind != "nested":
            raise InputError(
                "the rows hold no tokens", use=f"give score {argument_name('rows', 'nested')}"
            )
        if all(self._value(row, score) is None for score in self.shape.scores):
            reason = row[self._name_in_rows("reason")]
            raise InputError(f"text {place + 1} has no score ({reason}): give two texts that have")

    def _value(self, row: Mapping[str, Any], score: Score) -> float | None:
        """A score of a text; None if the text lacks it."""
        value: float | None = row[self._name_in_rows(score.name)]
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
            escaped = []
            for row in self.rows:
                escaped.append({name: _writable(value) for name, value in row.items()})
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
    """Score texts: pseudo-likelihoods, chain rules over orders, energies.

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
    """
    from unmask.scoring.row_shape import RowShape, check_rows

    # `checked` has made a sequence of objects of the names.
    scores = each_once(cast("Sequence[Score]", score))
    check_rows(scores, rows)
    in_windows = long == "windows"
    if in_windows and not any(one.windows for one in scores):
        given = ", ".join(one.name for one in scores)
        known = cast("Mapping[str, type[Score]]", SCORES)
        with_windows = ", ".join(name for name, kind in known.items() if kind.windows)
        raise InputError(
            f"{long} is not used by {given}",
            argument="long",
            use=f"leave it out, or name scores that have windows ({with_windows})",
        )
    return RowShape(scores, kind=rows, unit=unit, windows=in_windows)


def notices_of(what: str, missing: Mapping[int, str], file: Path | None) -> list[str]:
    """How many texts, or pairs, lack a score, why the first of them does, and where the rows are.

    what      text or pair
    missing   why each of them lacks a score, by its number from 1
    """
    sentences = []
    counted = {number: reason for number, reason in missing.items() if reason != EMPTY}
    if not counted:  # empty lines count only if nothing else lacks a score
        counted = dict(missing)
    if counted:
        first, reason = next(iter(counted.items()))
        if len(counted) == 1:
            lack = f"1 {what} lacks"
        else:
            lack = f"{len(counted):,} {what}s lack"
        sentences.append(f"{lack} a score, the first is {what} {first}: {reason}")
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

    first, second   the rows of the texts, as `_with_our_names` returns them
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
    if difference < SMALLEST_DIFFERENCE:
        return f"the two texts differ by less than {SMALLEST_DIFFERENCE} {unit}"
    if score.better > 0:  # higher is better
        first_is_better = of_first > of_second
    else:
        first_is_better = of_first < of_second
    better = "first" if first_is_better else "second"
    comparison = f"the {better} text is better by {difference:.3f} {unit} ({score.direction})"
    # A score that states no error counts as exact.
    error_of_first = _standard_error(score, first) or 0.0
    error_of_second = _standard_error(score, second) or 0.0
    # Each text has its own seed, so the errors are independent.
    error = hypot(error_of_first, error_of_second)
    if error == 0:
        return comparison
    comparison += f", with a standard error of {error:.3f}"
    if difference < SIGNIFICANT_ERRORS * error:
        comparison += ": not a significant difference"
    return comparison


def _standard_error(score: Score, row: Mapping[str, Any]) -> float | None:
    """The standard error of a text's score: 0 if it is exact, None if the score states none."""
    error: float | None = row.get(f"{score.name}_se")
    return error


def _error_in_words(error: float) -> str:
    """A standard error; the score is exact if it is 0."""
    if error == 0:
        return "exact"
    return f"± {error:.3f}"


def _writable(value: Any) -> Any:
    """A text with halves of surrogate pairs escaped; any other value as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
