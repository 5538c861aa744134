"""What `unmask.translate` returns: one row per source line, how long it took, and figures against references."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.runs.files import as_json, write_atomically
from unmask.runs.outputs import output_file
from unmask.translation.evaluation import Figures
from unmask.translation.settings import TranslateSettings

if TYPE_CHECKING:
    import pandas

SHOWN = 10
BEGINNING = (b'{"text": ',)
"""How files of translations begin."""


@dataclass(frozen=True, repr=False)
class Translations:
    """Translations in the order of their sources.

    rows      text, energy, log_prob, passes, stutter (equal neighbouring tokens), tokens, length (of the text, in tokens);
              an empty source has an empty text, and null for its numbers. Of a causal model log_prob is its own
    seconds   in all
    moves     of a kernel: steps, and how many were accepted, proposed another token, and changed the text
    figures   against the references
    """

    settings: TranslateSettings
    rows: list[dict[str, Any]]
    seconds: float
    moves: dict[str, int]
    figures: Figures | None = None

    @property
    def texts(self) -> list[str]:
        """The translations."""
        return [row["text"] for row in self.rows]

    def to_frame(self) -> pandas.DataFrame:
        """The rows."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "settings": self.settings.to_dict(),
            "translations": self.rows,
            "seconds": self.seconds,
            "moves": self.moves,
            "figures": self.figures.to_dict() if self.figures else None,
        }

    def lines(self) -> str:
        """JSON lines, one per source."""
        return "".join(as_json(row, indent=None) + "\n" for row in self.rows)

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON lines."""
        write_atomically(output_file("path", path, (), BEGINNING), self.lines())

    def _repr_html_(self) -> str:
        told = escape(str(self.figures)).replace("\n", "<br>") if self.figures else ""
        texts = "".join(f"<li>{escape(text)}</li>" for text in self.texts[:SHOWN])
        return f"<p>{escape(repr(self))}<br>{told}</p><ul>{texts}</ul>"

    def __repr__(self) -> str:
        return f"Translations({self.settings.method}, {len(self.rows):,} texts)"
