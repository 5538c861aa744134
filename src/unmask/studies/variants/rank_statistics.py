"""Spearman's rho and the area under the curve of scores, in many resamples at once.

With counts c_i of each variant in a resample (all 1: the data themselves), P and N those of the
two classes, and mid-ranks r,

    Spearman's rho         correlation of r(score) and r(value), weighted by c              numbers
    area under the curve   (sum_{better} c_i r_i(score) - P (P + 1) / 2) / (P N)
                           two classes

A resample of n variants with replacement is its counts, and the mid-rank of a value is a
running sum of counts over the values sorted once, so that no resample is sorted: these are the
numbers of `scipy.stats.bootstrap` with `spearmanr`, 8 to 30 times as fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

Column = Float[np.ndarray, " n"]
"""A number per variant."""


@dataclass(frozen=True)
class Target:
    """Measured values, higher is better.

    hits   of two classes, which variants are in the better one; None of numbers
    """

    values: Column
    hits: Bool[np.ndarray, " n"] | None

    @classmethod
    def of(cls, values: Column) -> Target:
        """Two classes if there are two distinct values."""
        hits = None
        if len(np.unique(values)) == 2:
            hits = values == values.max()
        return cls(values, hits)

    def at(self, chosen: Bool[np.ndarray, " n"] | Int[np.ndarray, " m"]) -> Target:
        """The same for some of the variants; what a hit is stays."""
        hits = None
        if self.hits is not None:
            hits = self.hits[chosen]
        return Target(self.values[chosen], hits)

    @property
    def statistic(self) -> str:
        """Which one compares scores with these values: "spearman" or "auc"."""
        if self.hits is None:
            return "spearman"
        return "auc"

    @property
    def chance(self) -> float:
        """The statistic of a score that knows nothing."""
        if self.hits is None:
            return 0.0
        return 0.5


@dataclass(frozen=True)
class Sorted:
    """A column sorted once.

    order    the variants in ascending order of their values
    starts   where each distinct value begins in this order
    """

    order: Int[np.ndarray, " n"]
    starts: Int[np.ndarray, " g"]

    @classmethod
    def of(cls, values: Column) -> Sorted:
        """Sort a column."""
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        # Compared, and not subtracted: the difference of two infinite values is NaN.
        begins = np.r_[True, ascending[1:] != ascending[:-1]]
        return cls(order, np.flatnonzero(begins))

    def sums(self, weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b g"]:
        """The sum of weights over each distinct value."""
        ascending = np.take(weights, self.order, axis=1)
        if len(self.starts) == len(self.order):  # all values differ: each sum is one weight
            return ascending
        return np.add.reduceat(ascending, self.starts, axis=1)

    def ranks(
        self, counts: Float[np.ndarray, "b n"]
    ) -> tuple[Float[np.ndarray, "b g"], Float[np.ndarray, " b"]]:
        """The mid-rank of each distinct value minus (n + 1) / 2, their mean; and the root of the
        sum of their squares over the variants.
        """
        totals = self.sums(counts)
        upto = totals.cumsum(1)
        ranks = upto - totals / 2 - upto[:, -1:] / 2
        return ranks, np.sqrt((totals * ranks**2).sum(1))


def rank_statistics(
    columns: Sequence[Column], target: Target, resamples: Iterable[Float[np.ndarray, "b n"]]
) -> Float[np.ndarray, "B s"]:
    """Spearman's rho, or the area, of every column in every resample; NaN where a resample has
    one value only.

    resamples   their counts, some resamples in each array
    """
    sorted_columns = [Sorted.of(column) for column in columns]
    sorted_values = Sorted.of(target.values)
    value_number = np.unique(target.values, return_inverse=True)[1]  # of each variant
    statistics = []
    for counts in resamples:
        # Both statistics are sums of weights times the ranks of the score, over a scale. As the
        # mean of the ranks was taken away, the area lacks its chance of 1/2.
        if target.hits is None:
            value_ranks, value_scale = sorted_values.ranks(counts)
            weights = counts * value_ranks[:, value_number]
        else:
            weights = counts * target.hits
            value_scale = weights.sum(1) * (counts - weights).sum(1)  # P N
        of_columns = np.empty((len(counts), len(columns)))
        for place, column in enumerate(sorted_columns):
            ranks, rank_scale = column.ranks(counts)
            if target.hits is None:
                scale = value_scale * rank_scale
            else:
                scale = value_scale
            with np.errstate(invalid="ignore", divide="ignore"):
                centred = (column.sums(weights) * ranks).sum(1) / scale
            of_columns[:, place] = centred + target.chance
        statistics.append(of_columns)
    return np.concatenate(statistics)
