"""`mutants` with `measured`: which score ranks measured variants best, and how sure that is.

`comparing` has the numbers, `statistics` their definitions; here are the result and its sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unmask.arguments import checked
from unmask.formats import excerpt
from unmask.runs.files import write_table
from unmask.runs.outputs import answer_file
from unmask.variants.comparing import (
    FEWER,
    GROUP_RESAMPLES,
    Numbers,
    behind_best,
    corrected,
    fits_of,
    groups_of,
    is_whole,
    rows_of,
)
from unmask.variants.epistasis import Epistasis
from unmask.variants.mutants import PARQUET
from unmask.variants.reading import Variants
from unmask.variants.statistics import Target, resampled, with_interval

if TYPE_CHECKING:
    import pandas

    from unmask.figures import Figure

STATISTICS = {"spearman": "Spearman's rho", "auc": "area under the curve"}
HEADS = {"spearman": "rho", "auc": "AUC"}


@dataclass(frozen=True)
class Measured:
    """Measured variants of a sequence against the model's scores.

    sequence      as it was given
    places        the residues that vary, counted from 1
    joint         how joints were derived, for the scores that use one
    column        the measured column
    better        "higher" or "lower": which values are better
    statistic     "spearman" for numbers, "auc" for two classes
    top           how many of a score's best variants count as chosen
    variants      the names
    changes       how many residues of each variant differ
    values        the measured value of each variant
    numbers       every score's numbers, one for each variant, by name
    rows          one per score, best first: value, low, high, hits, enrichment and its interval, best_in, within
    behind        for each score but the best: how far the best is above it, with the interval of the paired difference
    fits          an additive regression on 1, 10, 100 of the measured variants, on the others
    groups        scores that see dependence minus their independent twins: all variants, by number of changes, by region
    notes         what was guessed, averaged or left out
    sentence      which score to use here, and how sure that is
    interactions  with `epistasis`, the interactions of pairs of residues; see `unmask.variants.epistasis.Epistasis`

    >>> rows = [{"mutant": m, "y": y} for m, y in [("cat2dog", 1.0), ("cat2man", 2.0), ("cat2boy", 3.0)]]
    >>> found = unmask.mutants("the cat sat", measured=rows, alphabet="cat,dog,man,boy", scores="singles")
    >>> found.rows[0]["score"], found.statistic
    ('singles', 'spearman')
    """

    sequence: str
    places: tuple[int, ...]
    joint: str
    column: str
    better: str
    statistic: str
    top: int
    variants: list[str] = field(repr=False)
    changes: list[int] = field(repr=False)
    values: list[float] = field(repr=False)
    numbers: Mapping[str, list[float]] = field(repr=False)
    rows: list[Numbers]
    behind: list[Numbers]
    fits: list[Numbers]
    groups: list[Numbers]
    notes: tuple[str, ...]
    sentence: str
    interactions: Epistasis | None = None

    def __len__(self) -> int:
        return len(self.variants)

    def to_frame(self) -> pandas.DataFrame:
        """One row per variant: its name, how many changes, the measured value, every score minus the parent's."""
        import pandas

        return pandas.DataFrame({"mutant": self.variants, "changes": self.changes, "measured": self.values, **self.numbers})

    def table(self) -> pandas.DataFrame:
        """One row per score, best first."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `unmask mutants --measured --json`: everything but the variants themselves."""
        return {
            "sequence": self.sequence,
            "variants": len(self),
            "places": list(self.places),
            "joint": self.joint,
            "column": self.column,
            "better": self.better,
            "statistic": self.statistic,
            "top": self.top,
            "sentence": self.sentence,
            "scores": self.rows,
            "behind": self.behind,
            "fits": self.fits,
            "groups": self.groups,
            "notes": list(self.notes),
            **({} if self.interactions is None else {"interactions": self.interactions.to_dict()}),
        }

    @checked
    def write(self, path: str | Path) -> None:
        """All variants, their values and scores to a Parquet file, with the numbers of `to_dict` in its metadata."""
        write_table(answer_file("out", path, PARQUET, 1), self.to_frame(), about=self.to_dict())

    def figure(self) -> Figure:
        """Every score with its interval, and what dependence adds by number of changes and by region."""
        from unmask.variants.plots import measured_figure

        return measured_figure(self)

    def __repr__(self) -> str:
        best = self.rows[0]
        return f"Measured({len(self):,} variants at {len(self.places)} sites, best {best['score']} {best['value']:.3f})"

    def _repr_html_(self) -> str:
        shown = self.table().round(3).to_html(index=False)
        head = f"{escape(excerpt(self.sequence, [], 80).text)}<br>{len(self):,} variants, {escape(self.column)}"
        return f"<p>{head}</p>{shown}<p>{escape(self.sentence)}</p>"


def compared(
    sequence: str,
    names: list[str],
    variants: Variants,
    effects: Mapping[str, Float[np.ndarray, " n"]],
    background: Mapping[str, Float[np.ndarray, " n"]] | None,
    regions: Mapping[str, Sequence[int]],
    joint: str,
    better: str,
    top: int,
    seed: int,
) -> Measured:
    """All numbers of the result, from every score minus the parent's."""
    target, notes = Target.of(variants.values if better == "higher" else -variants.values), list(variants.notes)
    columns = corrected(effects, variants.changes, background, notes)
    if top >= len(names):
        notes.append(f"the top {top} are all variants, so that ratios are 1: give a smaller --top")
    rows, drawn = rows_of(columns, target, variants.changes, top, seed)
    behind, fits = behind_best(rows, drawn), fits_of(variants, target, seed)
    said = _sentence(rows, behind, fits, columns, target, variants.column, seed)
    return Measured(
        sequence,
        variants.places,
        joint,
        variants.column,
        better,
        "auc" if target.classes else "spearman",
        top,
        names,
        variants.changes.tolist(),
        variants.values.tolist(),
        {name: column.tolist() for name, column in columns.items()},
        rows,
        behind,
        fits,
        groups_of(variants, columns, target, regions, seed),
        tuple(notes),
        said,
    )


def _sentence(
    rows: Sequence[Numbers],
    behind: Sequence[Numbers],
    fits: Sequence[Numbers],
    columns: Mapping[str, Float[np.ndarray, " n"]],
    target: Target,
    column: str,
    seed: int,
) -> str:
    """Which score to use, and how sure that is; or that none can be used."""
    what, scores = STATISTICS["auc" if target.classes else "spearman"], [row for row in rows if row["score"] != FEWER]
    best, whole = scores[0], [row for row in scores if is_whole(row["score"])]
    shown, chance = f"{best['score']}: {what} {_with_interval(best)}", target.chance
    beside = f"; an additive fit to {fits[-1]['measured']} measured variants reaches {fits[-1]['value']:.3f}" if fits[1:] else ""
    if whole and all(row["high"] < chance for row in whole):
        span = f"{whole[-1]['value']:.3f} to {whole[0]['value']:.3f}"
        why = _why(whole[-1]["score"], columns, target, column, seed)
        other = f"; the best correction is {shown}" if best["low"] > chance else ""
        return (
            f"Use no score as it is: all rank {column} the wrong way ({what} {span}){why}{_within(whole, chance)}{other}{beside}."
        )
    if not best["low"] > chance:
        n = len(target.values)
        return f"Use no score: none is significantly better than chance on these {n:,} variants (best {shown}){beside}."
    if rows[0]["score"] == FEWER and behind[0]["low"] > 0:
        why = f"none ranks {column} as well as the number of changes alone ({_with_interval(rows[0])}; best {shown})"
        return f"Use no score: {why}{_within(whole, chance)}{beside}."
    if rows[0]["score"] == FEWER:
        return f"Use {shown}, but the number of changes alone does as well ({_with_interval(rows[0])}){beside}."
    tied = [row for row in behind if not row["low"] > 0]
    if not behind:
        return f"Use {shown}{beside}."
    if not tied:
        return f"Use {shown}, significantly above the next, {behind[0]['score']} (by {_with_interval(behind[0])}){beside}."
    more = f", and {len(tied) - 1} more are not significantly different" if len(tied) > 1 else ""
    near = f"best in {best['best_in']:.0%} of resamples; {tied[0]['score']} is {_with_interval(tied[0])} below{more}"
    return f"Use {shown}, but that is not decided ({near}){beside}."


def _within(rows: Sequence[Numbers], chance: float) -> str:
    """The score that is best among variants with as many changes, if it is better than chance there."""
    known = [row for row in rows if row.get("within_low", chance) > chance]
    if not known:
        return ""
    best = max(known, key=lambda row: float(row["within"]))
    return f"; among variants with as many changes {best['score']} is best ({_with_interval(best, 'within')})"


def _why(score: str, columns: Mapping[str, Float[np.ndarray, " n"]], target: Target, column: str, seed: int) -> str:
    """That scores and values go opposite ways with the number of changes, if they do; else what to check."""
    if FEWER in columns:
        found = []
        for one in (Target.of(columns[score]), target):
            drawn = resampled(len(target.values), seed, GROUP_RESAMPLES)
            value, low, high = with_interval(-columns[FEWER], one, drawn)
            found.append((value, np.sign(low - one.chance) if low > one.chance or high < one.chance else 0))
        (preferred, its_sign), (measured, other_sign) = found
        if its_sign * other_sign < 0:
            liked = "the given sequence" if its_sign < 0 else "residues that are not the given sequence's"
            both = f"with the number of changes {score} has {preferred:.3f}, and {column} {measured:.3f}"
            return f": the model prefers {liked} ({both})"
    return "; if lower values are better, give --better lower" if not target.classes else ""


def _with_interval(row: Numbers, name: str = "") -> str:
    low, high = (row[f"{name}_{end}" if name else end] for end in ("low", "high"))
    return f"{row[name or 'value']:.3f} [{low:.3f}, {high:.3f}]"
