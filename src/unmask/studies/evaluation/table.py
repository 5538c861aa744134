"""The result of an evaluation: Table 1, NLL against distance, and the files that hold both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.common.border.calls import checked
from unmask.common.files import (
    as_json,
    user_path,
    write_atomically,
    write_json,
    write_table,
    writing,
)
from unmask.common.results import Result
from unmask.joints.registry import label_of, name_of_stored
from unmask.runs.fingerprint import provenance
from unmask.studies.evaluation.distance import DISTANCES, distance_figure
from unmask.studies.evaluation.markdown import HEADINGS, as_markdown, frame_of
from unmask.studies.evaluation.summary import summarise

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Evaluation(Result):
    """Table 1 for one model and one set of pairs.

    settings   of the call, with the model's fingerprint and hashes of the data
    rows       one row per pair and construction (the columns of `to_frame`)
    pairs      how many pairs were chosen, failed ones included
    failed     the pairs that are not in the table, each with the reason
    skipped    how many texts gave no pair, by reason
    about      when, where and with which versions it was made

    >>> texts, words = ["The cat sat on the mat."], "cat,dog,sat,lay"
    >>> table = unmask.evaluate(texts, pairs=1, constructions="product,chain", alphabet=words)
    >>> table.rows["construction"].tolist()
    ['product', 'chain']
    """

    settings: dict[str, Any]
    rows: pandas.DataFrame = field(repr=False)
    pairs: int
    failed: list[dict[str, Any]] = field(default_factory=list, repr=False)
    skipped: Counter[str] = field(default_factory=Counter)
    about: dict[str, Any] = field(  # type: ignore[assignment]
        default_factory=provenance, repr=False
    )

    @cached_property
    def summary(self) -> dict[str, Any]:  # type: ignore[override]
        """{"pairs", "incompatibility", "constructions": [{construction, u_ppl, p_ppl, a_kl,
        g_kl, ...}]}; see `summarise`.
        """
        if self.rows.empty:
            return {"pairs": 0, "incompatibility": None, "constructions": []}
        seed = self.settings.get("seed") or 0  # of the bootstrap; pairs that were given have none
        names = [name_of_stored(one) for one in self.settings["constructions"]]
        return summarise(self.rows, names, seed)

    def to_frame(self) -> pandas.DataFrame:
        """The table: one row per construction; each measure with its interval, `_low` to
        `_high`.
        """
        constructions = self.summary["constructions"]
        rows = [{**row, "label": label_of(row["construction"])} for row in constructions]
        return frame_of(
            rows,
            names=("construction", "label"),
            measures=(*HEADINGS, "difference"),
            after=("steps", "objective"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as plain values: what table.json holds, and the command prints
        as JSON.
        """
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
        """Write failures.jsonl, if a pair failed; and, if one was measured, results.parquet,
        table.md, table.json and figures.
        """
        write_evaluation(self, user_path(folder, "folder"))

    @property
    def headline(self) -> str:
        """The pairs, in a line."""
        source = Path(self.settings.get("data") or "").name
        scheme = self.settings.get("scheme") or "given"
        return f"{self.summary['pairs']} {scheme} pairs of {source}"


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Write the files of `Evaluation.save`."""
    failures = folder / "failures.jsonl"
    with writing(failures):
        failures.unlink(missing_ok=True)  # of an earlier evaluation
    if evaluation.failed:
        lines = [as_json(pair, indent=None) + "\n" for pair in evaluation.failed]
        write_atomically(failures, "".join(lines))
    if evaluation.rows.empty:
        return
    write_table(folder / "results.parquet", evaluation.rows)
    write_json(folder / "table.json", evaluation.to_dict())
    write_atomically(folder / "table.md", evaluation.to_markdown())
    for column in DISTANCES:
        figure = distance_figure(evaluation.rows, column, evaluation.headline)
        if figure is not None:
            write_atomically(folder / "figures" / f"{column}.png", figure.drawn())
