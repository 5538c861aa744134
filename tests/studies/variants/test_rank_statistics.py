"""Statistics of resamples against scipy, and against pairs counted one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unmask.common.intervals import interval, resampled
from unmask.studies.variants.rank_statistics import Sorted, Target, rank_statistics

few_values = st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=4, max_size=30)


def once(column, target):
    return rank_statistics([np.asarray(column, float)], target, [np.ones((1, len(column)))])[0, 0]


def area_by_pairs(scores, hits):
    pairs = [(a > b) + (a == b) / 2 for a in scores[hits] for b in scores[~hits]]
    return np.mean(pairs)


@given(few_values)
@settings(max_examples=60, deadline=None)
def test_spearman_with_ties_is_scipys(rows):
    scores, values = np.array(rows, float).T
    if len(np.unique(values)) < 3 or len(np.unique(scores)) < 2:
        return
    assert once(scores, Target.of(values)) == pytest.approx(
        stats.spearmanr(scores, values).statistic, abs=1e-12
    )


@given(few_values)
@settings(max_examples=60, deadline=None)
def test_area_is_the_share_of_pairs_in_order(rows):
    scores, values = np.array(rows, float).T
    values = (values > 0).astype(float)
    if len(np.unique(values)) < 2:
        return
    target = Target.of(values)
    assert (target.hits == (values == 1)).all()
    assert once(scores, target) == pytest.approx(area_by_pairs(scores, target.hits), abs=1e-12)


def test_a_resample_by_counts_is_the_statistic_of_the_repeated_variants():
    draw = np.random.default_rng(0)
    scores, values = draw.integers(0, 6, (2, 25)).astype(float)
    for drawn in resampled(25, seed=4, resamples=20):
        for row in drawn:
            repeated = np.repeat(np.arange(25), row.astype(int))
            for target in (Target.of(values), Target.of((values > 2).astype(float))):
                by_counts = rank_statistics([scores], target, iter([row[None]]))
                listed = rank_statistics(
                    [scores[repeated]], target.at(repeated), [np.ones((1, 25))]
                )
                assert by_counts[0, 0] == pytest.approx(listed[0, 0], abs=1e-12)


def test_intervals_are_scipys_bootstrap():
    draw = np.random.default_rng(7)
    scores, values = draw.integers(0, 30, (2, 60)).astype(float)
    ours = interval(rank_statistics([scores], Target.of(values), resampled(60, 3, 300)))[:, 0]
    scipys = stats.bootstrap(
        (scores, values),
        lambda a, b: stats.spearmanr(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=300,
        method="percentile",
        rng=3,
    ).confidence_interval
    assert ours == pytest.approx(list(scipys), abs=1e-12)


def test_a_sorted_column_groups_equal_values_also_infinite_ones():
    column = Sorted.of(np.array([0.0, -np.inf, 2, -np.inf, 0]))
    assert column.sums(np.ones((1, 5))).tolist() == [[2, 2, 1]]
    assert (column.ranks(np.ones((1, 5)))[0] + 3).tolist() == [[1.5, 3.5, 5.0]]
