"""The result of `assay`: how well scores rank measured variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from unmask.common.border.calls import checked
from unmask.common.excerpts import excerpt
from unmask.common.files import output_file
from unmask.common.results import Result
from unmask.studies.variants.saved_table import TABLES, save_table

if TYPE_CHECKING:
    import pandas

STATISTICS = {"spearman": "Spearman's rho", "auc": "area under the curve"}
HEADS = {"spearman": "rho", "auc": "AUC"}
"""Heads of their columns."""
Numbers = dict[str, Any]
"""A row about one score: its name, and numbers by name."""


@dataclass(frozen=True)
class Assay(Result):
    """Measured variants of a sequence against the model's scores.

    sequence      as it was given
    places        the residues that vary, counted from 1
    construction  how joints were derived, for the scores that use one
    column        the measured column; `better`: "higher" or "lower", which values are better
    statistic     "spearman" for numbers, "auc" for two classes
    names         of the variants; `changes`: how many residues of each differ; `values`: its
                  measured value
    numbers       every score's numbers, one for each variant, by name: the variant's score minus
                  that of the sequence (of a score where lower is better, the reverse)
    scores        one row per score, best first: value, low, high; best_in, the share of
                  resamples in which no other is better; within and its interval, the same among
                  variants with one number of changes, averaged
    behind        for each score but the best: how far the best is above it, with the interval
                  of the paired difference
    notes         what was guessed, averaged or left out
    sentence      which score to use here, and how sure that is

    >>> measured = {"cat2dog": 1.0, "cat2man": 2.0, "cat2boy": 3.0}
    >>> rows = [{"mutant": mutant, "y": y} for mutant, y in measured.items()]
    >>> assay = unmask.assay("the cat sat", rows, alphabet="cat,dog,man,boy")
    >>> assay.scores[0]["score"], assay.statistic
    ('singles', 'spearman')
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "sequence",
        "variants",
        "places",
        "construction",
        "column",
        "better",
        "statistic",
        "sentence",
        "scores",
        "behind",
        "notes",
    )

    sequence: str
    places: tuple[int, ...]
    construction: str
    column: str
    better: str
    statistic: str
    names: list[str] = field(repr=False)
    changes: list[int] = field(repr=False)
    values: list[float] = field(repr=False)
    numbers: Mapping[str, list[float]] = field(repr=False)
    scores: list[Numbers]
    behind: list[Numbers]
    notes: tuple[str, ...]
    sentence: str

    def __len__(self) -> int:
        return len(self.names)

    @property
    def variants(self) -> int:
        """How many there are."""
        return len(self.names)

    def to_frame(self) -> pandas.DataFrame:
        """One row per variant: its name, how many changes, the measured value, every score
        minus that of the sequence.
        """
        import pandas

        columns = {
            "mutant": self.names,
            "changes": self.changes,
            "measured": self.values,
            **self.numbers,
        }
        return pandas.DataFrame(columns)

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """All variants, their values and scores to a file: Parquet, with the numbers of
        `to_dict` in its metadata, CSV or TSV.
        """
        file = output_file("save", path, (), TABLES)
        save_table(file, self.to_frame(), about=self.to_dict())

    def __repr__(self) -> str:
        best = self.scores[0]
        return (
            f"Assay({len(self):,} variants at {len(self.places)} sites, best {best['score']}"
            f" {best['value']:.3f})"
        )

    def _repr_html_(self) -> str:
        import pandas

        beginning, *_ = excerpt(self.sequence, [], 80)
        about = f"{beginning}: {len(self):,} variants, {self.column}. {self.sentence}"
        table = pandas.DataFrame(self.scores).round(3).to_html(index=False)
        return f"<p>{escape(about)}</p>{table}"
