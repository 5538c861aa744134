"""The result of `score` on texts.

Two texts are aligned by the longest common runs of their tokens; a stretch that differs is put
side by side and filled up with gaps. Every token is in exactly one row, so the differences of a
score's shares add up to the difference of the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unmask.common.checks import whole
from unmask.common.errors import InputError, argument_name
from unmask.common.results import Result
from unmask.runs.folder import read_parts, read_rows
from unmask.scoring.registry import about
from unmask.scoring.row_shape import Rows, RowShape
from unmask.scoring.scores.score import Score

if TYPE_CHECKING:
    import pandas


class OfScores(Result):
    """A result with the scores and the unit of a shape."""

    shape: RowShape

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """The definition of each score by name, and whether it is a probability."""
        return about(self.shape.scores)

    @property
    def unit(self) -> str:
        """nats or bits."""
        return self.shape.unit

    @property
    def headline(self) -> str:
        """The scores, whether each is a probability, and the unit."""
        names = []
        for score in self.shape.scores:
            kind = "a probability" if score.probability else "not a probability"
            names.append(f"{score.name} ({kind})")
        return f"{', '.join(names)}, in {self.unit}"


@dataclass(frozen=True, repr=False)
class Scores(OfScores):
    """The rows of a call of `unmask.score`, one per text, word or token, as mappings; a
    notebook shows them as a table.

    `len`, `for` and `[place]` are those of `rows`. The rows of a run folder are read from it
    when they are first used.

    shape       the scores, what a row is, and its unit
    in_memory   the rows, where there is no folder
    folder      where the run is kept, if it is

    >>> scores = unmask.score(["The keys are here.", "The keys is here."], rows="nested")
    >>> len(scores), scores[0]["pll"] > scores[1]["pll"]
    (2, True)
    >>> most = max(scores.difference(), key=lambda row: row["pll_difference"])
    >>> most["first_token"], most["second_token"]
    ('are', 'is')
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "rows")

    shape: RowShape
    in_memory: tuple[dict[str, Any], ...] = ()
    folder: Path | None = None

    @cached_property
    def rows(self) -> Rows:
        """All rows, in the order of the texts."""
        if self.folder is None:
            return list(self.in_memory)
        table = read_rows(read_parts(self.folder), self.shape.columns)
        return [dict(row) for row in table.to_pylist()]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    def __repr__(self) -> str:
        names = ", ".join(score.name for score in self.shape.scores)
        return f"Scores({names}; {len(self)} {self.shape.kind})"

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each row's text, and why a number is missing (None: none is); a
        folder's rows are not kept in memory.
        """
        item = self.shape.own("item")
        reason = self.shape.own("reason")
        if self.folder is None:
            for row in self.rows:
                yield row[item], row[reason]
            return
        for part in read_parts(self.folder):
            table = read_rows([part], self.shape.columns)
            yield from zip(table[item].to_pylist(), table[reason].to_pylist(), strict=True)

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
        first_row = self._row_of_text("first", first)
        second_row = self._row_of_text("second", second)
        self._refuse_without_tokens(first_row, first)
        self._refuse_without_tokens(second_row, second)
        tokens = self.shape.own("tokens")
        scores = self.by_token(first, second)
        rows = []
        for left, right in aligned(first_row[tokens], second_row[tokens]):
            row = {
                "first_token": None if left is None else left["token"],
                "second_token": None if right is None else right["token"],
            }
            for score in scores:
                of_left = 0.0 if left is None else left[score.share_column]
                of_right = 0.0 if right is None else right[score.share_column]
                # Shares are surprisals, or an energy's parts: the lower share is the better.
                row[f"{score.name}_difference"] = score.better * (of_right - of_left)
            rows.append(row)
        return rows

    def _row_of_text(self, argument: str, place: int) -> dict[str, Any]:
        """The row of one of the texts, counted from 0; raises if rows are of words or tokens,
        or there is no such text.
        """
        if self.shape.kind in ("words", "tokens"):
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
        import pandas

        names = self.shape.columns.names
        try:
            return pandas.DataFrame(self.rows, columns=names)
        except UnicodeEncodeError:
            escaped = [{name: _writable(value) for name, value in row.items()} for row in self.rows]
            return pandas.DataFrame(escaped, columns=names)


def aligned(left: Rows, right: Rows) -> Iterator[tuple[dict[str, Any] | None, ...]]:
    """The tokens of two texts side by side; None is a gap."""
    runs = SequenceMatcher(
        None,
        [token["token"] for token in left],
        [token["token"] for token in right],
        autojunk=False,
    )
    for _kind, left_start, left_end, right_start, right_end in runs.get_opcodes():
        yield from zip_longest(left[left_start:left_end], right[right_start:right_end])


def _writable(value: Any) -> Any:
    """A text with halves of surrogate pairs escaped; any other value as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
