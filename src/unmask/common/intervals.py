"""Standard errors, 95 % intervals and bootstraps.

A bootstrap draws resamples: n items with replacement from n. A resample is given by its counts,
how often each item was drawn, so a statistic that can be weighted needs no copy of the items.
Its interval runs from the 2.5 to the 97.5 percentile over the resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from statistics import fmean, stdev

import numpy as np
from jaxtyping import Float

NORMAL_95 = 1.959963984540054  # the 97.5 percentile of the standard normal distribution
ENDS_95 = [2.5, 97.5]  # the percentiles at which a bootstrap interval ends
COUNTS_AT_ONCE = 2**16  # counts drawn at once: few enough for a processor's cache
PRODUCTS_AT_ONCE = 2**23
"""Multiplications of counts with values at once. The counts of all resamples together may take
gigabytes: 9,999 resamples of 100,000 items take 8.
"""


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of numbers and its standard error. The error of a single number is infinite; that
    of an infinite mean is 0.
    """
    if inf in values:
        return inf, 0.0
    mean = fmean(values)
    if len(values) == 1:
        return mean, inf
    return mean, stdev(values) / len(values) ** 0.5


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share p = right / n (Wilson 1927), with z = NORMAL_95:

        (p + z^2 / 2n  -+  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n).

    `right` need not be a whole number: ties count half.
    """
    p = right / n
    z = NORMAL_95
    divisor = 1 + z * z / n
    middle = (p + z * z / (2 * n)) / divisor
    variance = p * (1 - p) / n + z * z / (4 * n * n)
    half = z / divisor * sqrt(variance)
    return middle - half, middle + half


def resampled(
    n: int, seed: int, resamples: int, at_once: int | None = None
) -> Iterator[Float[np.ndarray, "b n"]]:
    """The counts of n items in resamples, `at_once` resamples in an array; by default as many as
    make COUNTS_AT_ONCE counts.

    The counts do not depend on `at_once`.
    """
    draw = np.random.default_rng(seed)
    if at_once is None:
        at_once = max(1, COUNTS_AT_ONCE // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        items = draw.integers(0, n, (rows, n))
        # Row r counts items r n to r n + n - 1: one bincount counts for all rows
        cells = items + n * np.arange(rows)[:, None]
        counts = np.bincount(cells.ravel(), minlength=rows * n)
        yield counts.reshape(rows, n).astype(float)


def interval(values: Float[np.ndarray, "B s"]) -> Float[np.ndarray, "2 s"]:
    """The interval of each of s statistics from its B resamples.

    NaN resamples are left out. A statistic that is NaN in all resamples has NaN ends.
    """
    unknown = np.isnan(values).all(0)
    known = np.where(unknown, 0.0, values)  # nanpercentile warns of a column without a number
    return np.where(unknown, np.nan, np.nanpercentile(known, ENDS_95, axis=0))


def intervals_of_means(
    values: Float[np.ndarray, "rows n"], seed: int, resamples: int
) -> Float[np.ndarray, "2 rows"]:
    """The bootstrap interval of the mean of each row, over its n >= 2 items. Every row resamples
    the same items.

    A row whose mean is not finite has NaN ends.
    """
    n = values.shape[1]
    finite = np.isfinite(values.mean(-1))
    known = np.where(finite[:, None], values, 0.0)  # 0 * inf is NaN
    at_once = max(1, PRODUCTS_AT_ONCE // values.size)
    means = [counts @ known.T / n for counts in resampled(n, seed, resamples, at_once)]
    ends = np.percentile(np.concatenate(means), ENDS_95, axis=0)
    return np.where(finite, ends, np.nan)
