"""How well columns of scores rank measured values: Spearman's correlation, area under the curve, enrichment, their bootstrap.

With counts c_i of each variant in a resample (all 1: the data themselves), n = sum_i c_i, and mid-ranks r,

    Spearman     correlation of r(score) and r(value), weighted by c                         numbers
    area         (sum_{hits} c_i r_i(score) - P (P + 1) / 2) / (P N),   P hits, N others     two classes
    enrichment   (share of hits among the `top` highest scores) / (P / n)

A resample of n variants with replacement is its counts, and the mid-rank of a value is a running sum of counts over the values
sorted once, so that no resample is sorted. Ties share their mid-rank, and their part of the `top`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

AT_ONCE = 2**16
"""Counts worked on at once: few enough for a processor's cache."""
PENALTIES = np.logspace(-2, 3, 11)
EVALUATED = 20_000
"""The most variants that a regression is evaluated on."""


@dataclass(frozen=True)
class Sorted:
    """A column sorted once: places in ascending order, and where each distinct value begins there."""

    order: Int[np.ndarray, " n"]
    starts: Int[np.ndarray, " g"]

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> Sorted:
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        return cls(order, np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]]))

    def sums(self, weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b g"]:
        """The sum of weights over each distinct value."""
        ascending = np.take(weights, self.order, axis=1)
        return ascending if len(self.starts) == len(self.order) else np.add.reduceat(ascending, self.starts, axis=1)

    def mid_ranks(self, totals: Float[np.ndarray, "b g"]) -> Float[np.ndarray, "b g"]:
        """The mid-rank of each distinct value, given how often each occurs, minus (n + 1) / 2, their mean."""
        upto = totals.cumsum(1)
        return upto - totals / 2 - upto[:, -1:] / 2


@dataclass(frozen=True)
class Target:
    """Measured values, higher is better.

    hits      the variants to find: the better class, or the best tenth of the numbers
    classes   whether there are two distinct values only
    """

    values: Float[np.ndarray, " n"]
    hits: Bool[np.ndarray, " n"]
    classes: bool

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> Target:
        classes = len(np.unique(values)) == 2
        least = values.max() if classes else np.quantile(values, 0.9, method="lower")
        hits = values >= least
        return cls(values, values > least if hits.all() else hits, classes)

    def at(self, chosen: np.ndarray) -> Target:
        """The same for some of the variants; what a hit is stays."""
        return Target(self.values[chosen], self.hits[chosen], self.classes)

    @property
    def chance(self) -> float:
        """The statistic of a score that knows nothing."""
        return 0.5 if self.classes else 0.0


def agreement(
    columns: Sequence[Float[np.ndarray, " n"]], target: Target, top: int, counts: Iterator[Float[np.ndarray, "b n"]]
) -> tuple[Float[np.ndarray, "B s"], Float[np.ndarray, "B s"]]:
    """Spearman or area, and enrichment, of every column in every resample; NaN where a resample has one value or no hit."""
    by_score, by_value = [Sorted.of(column) for column in columns], Sorted.of(target.values)
    group = np.empty(len(target.values), dtype=int)
    group[by_value.order] = np.repeat(np.arange(len(by_value.starts)), np.diff(np.r_[by_value.starts, len(group)]))
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for drawn in counts:
        n, hits = drawn.sum(1), drawn * target.hits
        found_hits = hits.sum(1)
        weights, scale = hits, found_hits * (n - found_hits)
        if not target.classes:
            totals = by_value.sums(drawn)
            ranks = by_value.mid_ranks(totals)
            weights, scale = drawn * ranks[:, group], np.sqrt((totals * ranks**2).sum(1))
        statistic, enriched = np.empty((2, len(drawn), len(columns)))
        for place, column in enumerate(by_score):
            totals = column.sums(drawn)
            ranks = column.mid_ranks(totals)
            summed = column.sums(weights)
            hit = summed if target.classes else column.sums(hits)
            with np.errstate(invalid="ignore", divide="ignore"):
                whole = scale if target.classes else scale * np.sqrt((totals * ranks**2).sum(1))
                statistic[:, place] = (summed * ranks).sum(1) / whole + target.chance
                enriched[:, place] = _hits_at_the_top(totals, hit, top) / np.minimum(top, n) / (found_hits / n)
        found.append((statistic, enriched))
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def _hits_at_the_top(totals: Float[np.ndarray, "b g"], hits: Float[np.ndarray, "b g"], top: int) -> Float[np.ndarray, " b"]:
    """Expected hits among the `top` highest, ties in random order; the last columns are enough if they hold `top` variants."""
    last = min(totals.shape[1], 4 * top + 64)
    if last < totals.shape[1] and (totals[:, -last:].sum(1) < top).any():
        last = totals.shape[1]
    totals, hits = totals[:, -last:][:, ::-1], hits[:, -last:][:, ::-1]
    above = totals.cumsum(1) - totals
    found: np.ndarray = np.nansum(hits * np.clip((top - above) / totals, 0, 1), 1)
    return found


def as_they_are(n: int) -> Iterator[Float[np.ndarray, "1 n"]]:
    """Every variant once."""
    yield np.ones((1, n))


def resampled(n: int, seed: int, resamples: int) -> Iterator[Float[np.ndarray, "b n"]]:
    """Counts of n variants drawn with replacement."""
    draw, at_once = np.random.default_rng(seed), max(1, AT_ONCE // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        places = draw.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(float)


def interval(values: Float[np.ndarray, "B s"]) -> Float[np.ndarray, "2 s"]:
    """From the 2.5 to the 97.5 percentile; NaN resamples are left out, and a column of them has no interval."""
    known = np.where(np.isnan(values).all(0), 0.0, values)
    return np.where(np.isnan(values).all(0), np.nan, np.nanpercentile(known, [2.5, 97.5], axis=0))


def with_interval(
    column: Float[np.ndarray, " n"], target: Target, counts: Iterator[Float[np.ndarray, "b n"]]
) -> tuple[float, float, float]:
    """Spearman or area of a column, and its 95 % interval over resamples."""
    ((value,),), _ = agreement([column], target, 1, as_they_are(len(column)))
    (low,), (high,) = interval(agreement([column], target, 1, counts)[0])
    return float(value), float(low), float(high)


def additive_fits(
    features: Bool[np.ndarray, "n p"], target: Target, measured: int, draws: int, seed: int
) -> Float[np.ndarray, " draws"]:
    """Spearman or area, on the other variants, of a ridge regression on `measured` variants drawn at random.

    The intercept has no penalty; the penalty has the smallest leave-one-out error. One variant fits the mean only: chance.
    """
    draw, found = np.random.default_rng(seed), np.empty(draws)
    for place in range(draws):
        drawn = draw.permutation(len(features))[: measured + EVALUATED]
        fitted, rest = drawn[:measured], drawn[measured:]
        predicted = features[rest] @ ridge(features[fitted].astype(float), target.values[fitted])
        found[place] = agreement([predicted], target.at(rest), 1, as_they_are(len(rest)))[0][0, 0]
    return np.where(np.isnan(found), target.chance, found)


def ridge(features: Float[np.ndarray, "m p"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " p"]:
    """Coefficients of a ridge regression with an intercept, by leave-one-out.

    With K = X X' of centred X, and H = 1/m + K (K + l)^-1, the error without variant i is (y_i - H y_i) / (1 - H_ii).
    """
    x, y = features - features.mean(0), values - values.mean()
    if len(x) < 2:
        return np.zeros(features.shape[1])
    size, basis = np.linalg.eigh(x @ x.T)
    size, along = np.maximum(size, 0), basis.T @ y
    shrunk = size / (size + PENALTIES[:, None])
    kept = 1 - 1 / len(x) - shrunk @ (basis**2).T
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (((y - (shrunk * along) @ basis.T) / kept) ** 2).sum(1)
    penalty = PENALTIES[np.nanargmin(np.where(np.isfinite(errors), errors, np.inf))]
    coefficients: np.ndarray = x.T @ (basis @ (along / (size + penalty)))
    return coefficients
