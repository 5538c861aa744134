"""`mutants` with `measured`: which score ranks measured variants best, and how sure that is.

Columns of scores, s(x) of a variant and s(w) of the parent:

    NAME            s(x) - s(w): ranks as the score itself does
    NAME/change     (s(x) - s(w)) / changes, if variants differ in how many residues they change
    fewer_changes   minus the number of changes: what a score must beat

Columns without a difference between variants, or equal to an earlier one, are left out. With
counts c_i of each variant in a resample (all 1: the data themselves), P and N those of the two
classes, and mid-ranks r,

    Spearman's rho         correlation of r(score) and r(value), weighted by c              numbers
    area under the curve   (sum_{better} c_i r_i(score) - P (P + 1) / 2) / (P N)
                           two classes

A resample of n variants with replacement is its counts, and the mid-rank of a value is a
running sum of counts over the values sorted once, so that no resample is sorted: these are the
numbers of `scipy.stats.bootstrap` with `spearmanr`, 8 to 30 times as fast. Intervals are from
the 2.5 to the 97.5 percentile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from unmask.common.files import output_file
from unmask.common.formats import excerpt
from unmask.common.intervals import interval, resampled
from unmask.common.results import Result
from unmask.common.signature import checked
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.runs.progress import Progress
from unmask.scoring.registry import chosen_of_variants
from unmask.studies.variants.contexts import Contexts
from unmask.studies.variants.mutants import TABLES, refuse_more, save_table
from unmask.studies.variants.parsing import (
    Parent,
    Variants,
    read_variants,
    refuse_english,
    residue_ids,
)
from unmask.studies.variants.ranking import Ranking
from unmask.tables.candidates import MAX_PASSES

if TYPE_CHECKING:
    import pandas

STATISTICS = {"spearman": "Spearman's rho", "auc": "area under the curve"}
HEADS = {"spearman": "rho", "auc": "AUC"}
FEWER, PER_CHANGE = "fewer_changes", "/change"
RESAMPLES, FEWEST_RESAMPLES, SEED = 1000, 200, 0
MOST_RESAMPLED = 10**8
"""Variants in all resamples together; of long lists there are fewer resamples, down to
FEWEST_RESAMPLES.
"""
SMALLEST_GROUP = 20
Numbers = dict[str, Any]
Column = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Measured(Result):
    """Measured variants of a sequence against the model's scores.

    sequence      as it was given
    places        the residues that vary, counted from 1
    joint         how joints were derived, for the scores that use one
    column        the measured column; `better`: "higher" or "lower", which values are better
    statistic     "spearman" for numbers, "auc" for two classes
    names         of the variants; `changes`: how many residues of each differ; `values`: its
                  measured value
    numbers       every score's numbers, one for each variant, by name
    scores        one row per score, best first: value, low, high; best_in, the share of
                  resamples in which no other is better; within and its interval, the same among
                  variants with one number of changes, averaged
    behind        for each score but the best: how far the best is above it, with the interval
                  of the paired difference
    notes         what was guessed, averaged or left out
    sentence      which score to use here, and how sure that is

    >>> measured = {"cat2dog": 1.0, "cat2man": 2.0, "cat2boy": 3.0}
    >>> rows = [{"mutant": mutant, "y": y} for mutant, y in measured.items()]
    >>> ranked = unmask.mutants("the cat sat", measured=rows, alphabet="cat,dog,man,boy")
    >>> ranked.scores[0]["score"], ranked.statistic
    ('singles', 'spearman')
    """

    KEYS = (
        "sequence",
        "variants",
        "places",
        "joint",
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
    joint: str
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
        minus the parent's.
        """
        import pandas

        return pandas.DataFrame(
            {"mutant": self.names, "changes": self.changes, "measured": self.values, **self.numbers}
        )

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """All variants, their values and scores to a file: Parquet, with the numbers of
        `to_dict` in its metadata, CSV or TSV.
        """
        save_table(output_file("save", path, (), TABLES), self.to_frame(), about=self.to_dict())

    def __repr__(self) -> str:
        best = self.scores[0]
        return (
            f"Measured({len(self):,} variants at {len(self.places)} sites, best {best['score']}"
            f" {best['value']:.3f})"
        )

    def _repr_html_(self) -> str:
        import pandas

        head = (
            f"{excerpt(self.sequence, [], 80)[0]}: {len(self):,} variants, {self.column}."
            f" {self.sentence}"
        )
        return f"<p>{escape(head)}</p>{pandas.DataFrame(self.scores).round(3).to_html(index=False)}"


def measure(
    sequence: str,
    model: Model,
    measured: Any,
    positions: str | Sequence[int] | None,
    ranking: Ranking,
    joint: str,
    alphabet: str | PathLike[str] | Sequence[str] | None,
    force: bool,
    progress: Progress | None,
) -> Measured:
    """Read the list, score its variants, and compare the scores with the values."""
    names = chosen_of_variants(ranking.scores, joint)
    refuse_english(model, [sequence])
    lm = as_model(model)
    allowed = residue_ids(lm, alphabet)
    parent = Parent(lm, sequence, allowed)
    variants = read_variants(
        measured, parent, positions, ranking.column, ranking.variant, ranking.skip_bad
    )
    sites = [parent.where[place - 1] for place in variants.places]
    contexts = Contexts(lm, parent.ids, sites, names, allowed, ranking.orders, joint=joint)
    cells = torch.from_numpy(np.concatenate([variants.cells, variants.wild[None]]))
    tokens = torch.tensor(allowed)[cells]
    if not force:
        what = f"the scores of {len(tokens):,} variants need {{}} passes of the model"
        refuse_more(
            contexts.pass_count(tokens), MAX_PASSES, what, "ask for fewer scores or variants"
        )
    look_at_first(lm, [parent.ids])
    effects = {
        name: (values[:-1] - values[-1]).numpy()
        for name, values in contexts.scores(tokens, progress).items()
    }
    return compared(sequence, variants.names(parent), variants, effects, joint, ranking.better)


def compared(
    sequence: str,
    names: list[str],
    variants: Variants,
    effects: Mapping[str, Column],
    joint: str,
    better: str,
) -> Measured:
    """All numbers of the result; `effects`: every score minus the parent's."""
    target, notes = (
        Target.of(variants.values if better == "higher" else -variants.values),
        list(variants.notes),
    )
    columns = _distinct_columns(effects, variants.changes, notes)
    rows, resamples = _rows(columns, target, variants.changes)
    lows, highs = interval(resamples[:, :1] - resamples)[:, 1:].tolist()
    behind = [
        {"score": row["score"], "value": rows[0]["value"] - row["value"], "low": low, "high": high}
        for row, low, high in zip(rows[1:], lows, highs, strict=True)
    ]
    return Measured(
        sequence,
        variants.places,
        joint,
        variants.column,
        better,
        "spearman" if target.hits is None else "auc",
        names,
        variants.changes.tolist(),
        variants.values.tolist(),
        {name: column.tolist() for name, column in columns.items()},
        rows,
        behind,
        tuple(notes),
        _sentence(rows, behind, target, variants.column),
    )


def _distinct_columns(
    effects: Mapping[str, Column], changes: Int[np.ndarray, " n"], notes: list[str]
) -> dict[str, Column]:
    """Every column that is compared, by name."""
    offered = dict(effects)
    if len(np.unique(changes)) > 1:
        offered |= {
            f"{name}{PER_CHANGE}": effect / np.maximum(changes, 1)
            for name, effect in effects.items()
        }
        offered[FEWER] = -changes.astype(float)
    columns: dict[str, Column] = {}
    for name, column in offered.items():
        scale = 1e-9 * max(1.0, float(np.abs(column).max()))
        twin = next(
            (other for other, known in columns.items() if np.abs(known - column).max() <= scale),
            None,
        )
        if np.ptp(column) <= scale:
            notes.append(f"{name} is the same for all variants: left out")
        elif twin is not None:
            notes.append(f"{name} equals {twin} here: left out")
        else:
            columns[name] = column
    return columns


def _rows(
    columns: Mapping[str, Column], target: Target, changes: Int[np.ndarray, " n"]
) -> tuple[list[Numbers], Float[np.ndarray, "B s"]]:
    """One row per column, best first (see `Measured`), and the statistic of the columns, in
    this order, in every resample.
    """
    n, listed = len(changes), list(columns.values())
    (values,) = agreement(listed, target, [np.ones((1, n))])
    resamples = agreement(
        listed,
        target,
        resampled(n, SEED, min(RESAMPLES, max(FEWEST_RESAMPLES, MOST_RESAMPLED // n))),
    )
    low, high = interval(resamples)
    known = resamples[~np.isnan(resamples).any(1)]
    best_in = (known >= known.max(1, keepdims=True) - 1e-12).sum(0) / max(1, len(known))
    numbers = {
        "value": values,
        "low": low,
        "high": high,
        "best_in": best_in,
        **_within(listed, target, changes),
    }
    names, order = list(columns), np.argsort(-values, kind="stable")
    rows = [
        {"score": names[i], **{name: float(column[i]) for name, column in numbers.items()}}
        for i in order
    ]
    return rows, resamples[:, order]


def _within(
    columns: Sequence[Column], target: Target, changes: Int[np.ndarray, " n"]
) -> dict[str, Float[np.ndarray, " s"]]:
    """The statistic within each number of changes, averaged with the variants as weights; NaN
    of a constant column is chance.
    """
    groups = [changes == m for m in np.unique(changes)]
    groups = [
        g
        for g in groups
        if not g.all() and g.sum() >= SMALLEST_GROUP and len(np.unique(target.values[g])) > 1
    ]
    if not groups:
        return {}
    values, resamples = [], []
    for group in groups:
        inside, part, n = [column[group] for column in columns], target.at(group), int(group.sum())
        values.append(agreement(inside, part, [np.ones((1, n))]))
        resamples.append(agreement(inside, part, resampled(n, SEED, FEWEST_RESAMPLES)))
    weights = [group.sum() for group in groups]
    mean, drawn = (
        np.average(np.where(np.isnan(x), target.chance, x), 0, weights)
        for x in (np.array(values), np.array(resamples))
    )
    low, high = interval(drawn)
    return {"within": mean[0], "within_low": low, "within_high": high}


def _sentence(
    rows: Sequence[Numbers], behind: Sequence[Numbers], target: Target, column: str
) -> str:
    """A sentence that recommends a score and says how sure that is, or recommends none."""
    what, scores = (
        STATISTICS["spearman" if target.hits is None else "auc"],
        [row for row in rows if row["score"] != FEWER],
    )
    whole = [
        row
        for row in scores
        if row["score"] != "epistasis" and not row["score"].endswith(PER_CHANGE)
    ]
    best, chance = scores[0], target.chance
    shown = f"{best['score']}: {what} {_with_interval(best)}"
    if whole and all(row["high"] < chance for row in whole):
        span = f"{whole[-1]['value']:.3f} to {whole[0]['value']:.3f}"
        other = f"; the best correction is {shown}" if best["low"] > chance else ""
        return (
            f"Use no score as it is: all rank {column} the wrong way ({what} {span}){other}; check"
            " which values are better."
        )
    if not best["low"] > chance:
        n = len(target.values)
        return (
            f"Use no score: none is significantly better than chance on these {n:,} variants (best"
            f" {shown})."
        )
    if rows[0]["score"] == FEWER:
        alone = f"the number of changes alone ({_with_interval(rows[0])}"
        if behind[0]["low"] > 0:
            return f"Use no score: none ranks {column} as well as {alone}; best {shown})."
        return f"Use {shown}, but {alone}) does as well."
    tied = [row for row in behind if not row["low"] > 0]
    if not behind:
        return f"Use {shown}."
    if not tied:
        return (
            f"Use {shown}, significantly above the next, {behind[0]['score']} (by"
            f" {_with_interval(behind[0])})."
        )
    more = f", and {len(tied) - 1} more are not significantly different" if len(tied) > 1 else ""
    near = (
        f"best in {best['best_in']:.0%} of resamples; {tied[0]['score']} is"
        f" {_with_interval(tied[0])} below{more}"
    )
    return f"Use {shown}, but that is not decided ({near})."


def _with_interval(row: Numbers) -> str:
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


@dataclass(frozen=True)
class Target:
    """Measured values, higher is better; `hits`: the better of two classes, None for numbers."""

    values: Column
    hits: Bool[np.ndarray, " n"] | None

    @classmethod
    def of(cls, values: Column) -> Target:
        return cls(values, values == values.max() if len(np.unique(values)) == 2 else None)

    def at(self, chosen: Bool[np.ndarray, " n"] | Int[np.ndarray, " m"]) -> Target:
        """The same for some of the variants; what a hit is stays."""
        return Target(self.values[chosen], None if self.hits is None else self.hits[chosen])

    @property
    def chance(self) -> float:
        """The statistic of a score that knows nothing."""
        return 0.0 if self.hits is None else 0.5


@dataclass(frozen=True)
class Sorted:
    """A column sorted once: places in ascending order, and where each distinct value begins
    there.
    """

    order: Int[np.ndarray, " n"]
    starts: Int[np.ndarray, " g"]

    @classmethod
    def of(cls, values: Column) -> Sorted:
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        return cls(order, np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]]))

    def sums(self, weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b g"]:
        """The sum of weights over each distinct value."""
        ascending = np.take(weights, self.order, axis=1)
        return (
            ascending
            if len(self.starts) == len(self.order)
            else np.add.reduceat(ascending, self.starts, axis=1)
        )

    def ranks(
        self, counts: Float[np.ndarray, "b n"]
    ) -> tuple[Float[np.ndarray, "b g"], Float[np.ndarray, " b"]]:
        """The mid-rank of each distinct value, minus (n + 1) / 2, their mean; and the root of
        the sum of their squares.
        """
        totals = self.sums(counts)
        upto = totals.cumsum(1)
        ranks = upto - totals / 2 - upto[:, -1:] / 2
        return ranks, np.sqrt((totals * ranks**2).sum(1))


def agreement(
    columns: Sequence[Column], target: Target, counts: Iterable[Float[np.ndarray, "b n"]]
) -> Float[np.ndarray, "B s"]:
    """Spearman's rho, or the area, of every column in every resample; NaN where a resample has
    one value only.
    """
    by_score, by_value = [Sorted.of(column) for column in columns], Sorted.of(target.values)
    distinct = np.unique(target.values, return_inverse=True)[1]
    statistics = []
    for drawn in counts:
        if target.hits is None:
            value_ranks, scale = by_value.ranks(drawn)
            weights = drawn * value_ranks[:, distinct]
        else:
            weights = drawn * target.hits
            scale = weights.sum(1) * (drawn - weights).sum(1)
        statistic = np.empty((len(drawn), len(columns)))
        for place, column in enumerate(by_score):
            ranks, length = column.ranks(drawn)
            whole = scale * length if target.hits is None else scale
            with np.errstate(invalid="ignore", divide="ignore"):
                statistic[:, place] = (column.sums(weights) * ranks).sum(1) / whole + target.chance
        statistics.append(statistic)
    return np.concatenate(statistics)
