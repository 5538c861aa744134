"""The result of an evaluation: the rows that were measured, the table that they make, and the files that keep both."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.evaluation.figures import DISTANCES, distance_figure
from unmask.evaluation.table import HEADINGS, as_markdown, summarise
from unmask.joints.registry import named
from unmask.runs.files import write_atomically, write_json, write_table
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Evaluation:
    """Table 1 for one model and one set of pairs.

    settings   what was asked, with the model's fingerprint and hashes of the data
    rows       one row per pair and construction (columns: docs/evaluation.md)
    pairs      how many pairs were asked for
    failed     the pairs that are not in the table, each with the reason
    skipped    how many texts gave no pair, by reason

    >>> found = unmask.evaluate(["The cat sat on the mat."], pairs=1, joints="product,chain", alphabet="cat,dog,sat,lay")
    >>> found.rows["construction"].tolist()
    ['product', 'chain']
    """

    settings: dict[str, Any]
    rows: pandas.DataFrame = field(repr=False)
    pairs: int
    failed: list[dict[str, Any]] = field(default_factory=list, repr=False)
    skipped: Counter[str] = field(default_factory=Counter)
    about: dict[str, Any] = field(default_factory=provenance, repr=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """{"pairs", "compatibility", "constructions": [{construction, u_ppl, p_ppl, a_kl, g_kl, ...}]}; see `table`."""
        if self.rows.empty:
            return {"pairs": 0, "compatibility": None, "constructions": []}
        return summarise(self.rows, self.settings["constructions"], self.settings.get("seed") or 0)

    def to_frame(self) -> pandas.DataFrame:
        """The table: one row per construction; each measure with its interval, `_low` to `_high`."""
        import pandas

        rows = []
        for row in self.summary["constructions"]:
            found: dict[str, Any] = {"construction": row["construction"], "label": named(row["construction"]).label}
            for measure in (*HEADINGS, "difference"):
                number = row.get(measure) or {"value": None, "low": None, "high": None}
                found |= {measure: number["value"], f"{measure}_low": number["low"], f"{measure}_high": number["high"]}
            rows.append({**found, "steps": row["steps"], "objective": row["objective"]})
        return pandas.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as plain values: what `--json` prints and table.json holds."""
        seconds = self.rows.groupby("pair")["seconds"].first()
        return {
            **self.summary,
            "settings": self.settings,
            "failed": len(self.failed),
            "skipped_texts": dict(self.skipped),
            "median_seconds_a_pair": float(seconds.median()) if len(seconds) else None,
            **self.about,
        }

    def to_markdown(self) -> str:
        """The table for people, with intervals."""
        return as_markdown(self.summary, self.settings, len(self.failed))

    @checked
    def save(self, folder: Path) -> None:
        """Write results.parquet, table.md, table.json and the figures; nothing where no pair was measured."""
        if self.rows.empty:
            return
        write_table(folder / "results.parquet", self.rows)
        write_json(folder / "table.json", self.to_dict())
        write_atomically(folder / "table.md", self.to_markdown())
        for column in DISTANCES:
            if figure := distance_figure(self.rows, column, self._title()):
                image = io.BytesIO()
                figure.savefig(image, format="png", dpi=150)
                write_atomically(folder / "figures" / f"{column}.png", image.getvalue())

    def _title(self) -> str:
        source = Path(self.settings.get("data") or self.settings.get("pairs_file") or "").name
        return f"{self.summary['pairs']} {self.settings.get('scheme') or 'given'} pairs of {source}"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        frame = self.to_frame()
        shown = frame[["label", *HEADINGS]].rename(columns={"label": self._title(), **HEADINGS}) if len(frame) else frame
        return str(shown.to_html(index=False, float_format="{:,.3f}".format))
