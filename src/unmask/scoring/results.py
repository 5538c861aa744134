"""What `score` returns: the rows, what they mean, and how they show themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.runs.files import read_json
from unmask.runs.folder import read_parts, read_rows
from unmask.scoring.alignment import aligned
from unmask.scoring.registry import SCORES
from unmask.scoring.run import RowShape
from unmask.scoring.settings import ScoreSettings

if TYPE_CHECKING:
    import pandas

SHOWN = 20
"""Rows that a notebook shows."""


def about(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Definition of each score, and whether it is a probability."""
    return {
        name: {
            "definition": SCORES[name].definition,
            "probability": SCORES[name].probability,
            "why": SCORES[name].why,
            "better": "higher" if SCORES[name].better > 0 else "lower",
        }
        for name in names
    }


@dataclass(frozen=True, repr=False)
class Scores:
    """The rows of a call of `score`; those of a run folder are read from it when they are first asked for."""

    settings: ScoreSettings
    shape: RowShape
    kept: tuple[dict[str, Any], ...] = ()
    folder: Path | None = None

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the texts."""
        if self.folder is None:
            return list(self.kept)
        run = str(read_json(self.folder / "settings.json")["run"])
        table = read_rows(read_parts(self.folder, run), self.shape.columns(self.settings))
        return [dict(row) for row in table.to_pylist()]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    @property
    def unscored(self) -> list[dict[str, Any]]:
        """Rows with a reason why a number is missing."""
        return [row for row in self.rows if row["reason"] is not None]

    def difference(self, first: int = 0, second: int = 1) -> list[dict[str, Any]]:
        """Two texts token by token, and how much more of each score the first's token has; needs `tokens=True`.

        Scores that are no sum over tokens have no share of a token, and no column here.
        """
        rows = []
        for place in (first, second):
            row = self.rows[place]
            if "tokens" not in row:
                raise InputError("the rows hold no tokens: give tokens=True to score, or --tokens")
            if row["reason"] is not None and not row["tokens"]:
                raise InputError(f"text {place + 1} has no score ({row['reason']}): give two texts that have")
            rows.append(row["tokens"])
        names = [name for name in self.settings.scores if SCORES[name].by_token]
        return aligned(rows[0], rows[1], names)

    def to_dict(self) -> dict[str, Any]:
        """The scores' definitions, the unit, and the rows."""
        return {"scores": about(self.settings.scores), "unit": self.shape.unit, "rows": self.rows}

    def to_frame(self) -> pandas.DataFrame:
        """One row per text, word or token."""
        import pandas

        return pandas.DataFrame(self.rows, columns=self.shape.columns(self.settings).names)

    def __repr__(self) -> str:
        return f"Scores({', '.join(self.settings.scores)}; {len(self)} {self.shape.kind})"

    def _repr_html_(self) -> str:
        defined = "".join(
            f"<li><b>{name}</b> {escape(SCORES[name].definition)}; "
            f"{'a probability' if SCORES[name].probability else 'no probability'}</li>"
            for name in self.settings.scores
        )
        frame = self.to_frame().drop(columns=["words", "tokens"], errors="ignore").dropna(axis=1, how="all")
        more = "" if len(frame) <= SHOWN else f"<p>{len(frame) - SHOWN:,} more rows</p>"
        return f"<ul>{defined}</ul><p>{self.shape.unit}</p>{frame.head(SHOWN).to_html(index=False)}{more}"
