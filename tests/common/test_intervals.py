"""Standard errors, intervals of shares, and bootstraps, against scipy and by hand."""

from math import inf

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from unmask.common.intervals import (
    interval,
    intervals_of_means,
    mean_and_error,
    resampled,
    wilson,
)


def test_mean_and_error():
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == 3
    assert error == pytest.approx(np.sqrt(7 / 3))
    assert mean_and_error([4.0]) == (4, inf)
    assert mean_and_error([4.0, inf]) == (inf, 0)


@pytest.mark.parametrize(("right", "n"), [(0.0, 5), (7.0, 10), (300.0, 300), (151.0, 300)])
def test_wilson_interval(right, n):
    truth = binomtest(int(right), n).proportion_ci(0.95, "wilson")
    assert wilson(right, n) == pytest.approx((truth.low, truth.high), abs=1e-9)


def test_counts_of_resamples_do_not_depend_on_how_many_are_drawn_at_once():
    together = np.concatenate(list(resampled(7, seed=3, resamples=10)))
    assert together.shape == (10, 7)
    assert (together.sum(1) == 7).all()
    by_threes = list(resampled(7, seed=3, resamples=10, at_once=3))
    assert [len(counts) for counts in by_threes] == [3, 3, 3, 1]
    assert (np.concatenate(by_threes) == together).all()


def test_nan_resamples_are_left_out_of_an_interval():
    values = np.array([[0.0, np.nan], [np.nan, np.nan], [1.0, np.nan]])
    low, high = interval(values)
    assert [low[0], high[0]] == pytest.approx([0.025, 0.975])
    assert np.isnan([low[1], high[1]]).all()


def test_intervals_of_means_are_scipys_bootstrap():
    values = np.random.default_rng(1).normal(size=(2, 40))
    low, high = intervals_of_means(values, seed=5, resamples=300)
    for row in range(2):
        scipys = bootstrap(
            (values[row],), np.mean, n_resamples=300, method="percentile", rng=5
        ).confidence_interval
        assert [low[row], high[row]] == pytest.approx(list(scipys), abs=1e-12)


def test_an_infinite_number_takes_the_interval_of_its_own_row_only():
    values = np.random.default_rng(1).normal(size=(2, 40))
    finite = intervals_of_means(values, seed=5, resamples=300)
    values[0, 3] = inf
    ends = intervals_of_means(values, seed=5, resamples=300)
    assert np.isnan(ends[:, 0]).all()
    assert (ends[:, 1] == finite[:, 1]).all()
