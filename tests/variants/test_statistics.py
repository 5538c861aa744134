"""Statistics against brute force, scipy and simulated data, each with a twin that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unmask.variants.statistics import Sorted, Target, additive_fits, agreement, as_they_are, interval, resampled, ridge

few_values = st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=4, max_size=30)


def once(column, target, top=3):
    statistic, enriched = agreement([np.asarray(column, float)], target, top, as_they_are(len(column)))
    return statistic[0, 0], enriched[0, 0]


def area_by_pairs(scores, hits):
    pairs = [(a > b) + (a == b) / 2 for a in scores[hits] for b in scores[~hits]]
    return np.mean(pairs)


@given(few_values)
@settings(max_examples=60, deadline=None)
def test_spearman_with_ties_is_scipys(rows):
    scores, values = np.array(rows, float).T
    if len(np.unique(values)) < 3 or len(np.unique(scores)) < 2:
        return
    assert once(scores, Target.of(values))[0] == pytest.approx(stats.spearmanr(scores, values).statistic, abs=1e-12)


@given(few_values)
@settings(max_examples=60, deadline=None)
def test_area_is_the_share_of_pairs_in_order(rows):
    scores, values = np.array(rows, float).T
    values = (values > 0).astype(float)
    if len(np.unique(values)) < 2:
        return
    target = Target.of(values)
    assert target.classes and (target.hits == (values == 1)).all()
    assert once(scores, target)[0] == pytest.approx(area_by_pairs(scores, target.hits), abs=1e-12)


def test_enrichment_counts_the_top_and_shares_ties():
    values = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 1.0])
    target = Target.of(values)
    scores = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0.0])
    assert once(scores, target, 2)[1] == pytest.approx((2 / 2) / 0.3)
    assert once(scores, target, 4)[1] == pytest.approx((2 / 4) / 0.3)
    assert once(-scores, target, 2)[1] == pytest.approx((1 / 2) / 0.3)
    assert once(np.zeros(10), target, 4)[1] == pytest.approx(1.0)
    assert once([1, 0, 1, 0, 0, 0, 0, 0, 0, 1.0], target, 2)[1] == pytest.approx(
        (2 / 3) / 0.3
    )  # one of three tied places is lost


def test_hits_are_the_best_tenth_and_never_all():
    values = np.arange(100.0)
    assert Target.of(values).hits.sum() in (10, 11)
    floor = np.r_[np.zeros(95), 1, 2, 3, 4, 5.0]
    assert Target.of(floor).hits.sum() == 5


def test_a_resample_by_counts_is_the_statistic_of_the_repeated_variants():
    draw = np.random.default_rng(0)
    scores, values = draw.integers(0, 6, (2, 25)).astype(float)
    for drawn in resampled(25, seed=4, resamples=20):
        for row in drawn:
            repeated = np.repeat(np.arange(25), row.astype(int))
            for target in (Target.of(values), Target.of((values > 2).astype(float))):
                by_counts = agreement([scores], target, 5, iter([row[None]]))
                listed = agreement([scores[repeated]], target.at(repeated), 5, as_they_are(25))
                assert by_counts[0][0, 0] == pytest.approx(listed[0][0, 0], abs=1e-12)
                assert by_counts[1][0, 0] == pytest.approx(listed[1][0, 0], abs=1e-12)


def test_counts_are_of_n_draws_and_seeded():
    first = np.concatenate(list(resampled(40, 1, 7)))
    assert first.shape == (7, 40) and (first.sum(1) == 40).all()
    assert (first == np.concatenate(list(resampled(40, 1, 7)))).all() and not (first == next(resampled(40, 2, 7))).all()


def coverage(kind: str, spread: float, trials: int = 150, n: int = 80) -> float:
    """How often an interval, widened by `spread` around its middle, holds the true value; the truth by a large sample."""
    draw, inside = np.random.default_rng(11), 0

    def sample(size):
        scores = draw.normal(size=size)
        values = 0.6 * scores + draw.normal(size=size)
        return scores, (values > 0).astype(float) if kind == "classes" else values

    truth = once(*(lambda s, v: (s, Target.of(v)))(*sample(200_000)))[0]
    for trial in range(trials):
        scores, values = sample(n)
        low, high = interval(agreement([scores], Target.of(values), 5, resampled(n, trial, 200))[0])[:, 0]
        middle, half = (low + high) / 2, spread * (high - low) / 2
        inside += middle - half <= truth <= middle + half
    return inside / trials


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind):
    assert 0.89 <= coverage(kind, 1.0) <= 0.99
    assert coverage(kind, 0.4) < 0.75


def test_ridge_solves_the_normal_equations_and_chooses_by_leaving_one_out():
    draw = np.random.default_rng(3)
    x = draw.integers(0, 2, (30, 4)).astype(float)
    y = x @ [1.0, -2, 0, 3] + 5 + 0.5 * draw.normal(size=30)
    from unmask.variants.statistics import PENALTIES

    def solved(x, y, penalty):
        centred = x - x.mean(0)
        return np.linalg.solve(centred.T @ centred + penalty * np.eye(4), centred.T @ (y - y.mean()))

    def left_out(penalty):
        errors = []
        for i in range(30):
            keep = np.arange(30) != i
            w = solved(x[keep], y[keep], penalty)
            errors.append(y[i] - (y[keep].mean() + (x[i] - x[keep].mean(0)) @ w))
        return np.square(errors).sum()

    best = min(PENALTIES, key=left_out)
    assert np.allclose(ridge(x, y), solved(x, y, best))
    assert not np.allclose(ridge(x, y), solved(x, y, PENALTIES[-1]))


def test_more_measured_variants_fit_an_additive_landscape_better_and_one_fits_nothing():
    draw = np.random.default_rng(5)
    x = draw.integers(0, 2, (400, 6)).astype(bool)
    target = Target.of(x @ draw.normal(size=6) + 0.1 * draw.normal(size=400))
    means = [additive_fits(x, target, m, 20, seed=0).mean() for m in (1, 10, 100)]
    assert means[0] == 0.0 and means[0] < means[1] < means[2] and means[2] > 0.95
    shuffled = Target.of(draw.permutation(target.values))
    assert abs(additive_fits(x, shuffled, 100, 20, seed=0).mean()) < 0.15


def test_a_sorted_column_groups_equal_values_also_infinite_ones():
    column = Sorted.of(np.array([0.0, -np.inf, 2, -np.inf, 0]))
    totals = column.sums(np.ones((1, 5)))
    assert totals.tolist() == [[2, 2, 1]]
    assert (column.mid_ranks(totals) + 3).tolist() == [[1.5, 3.5, 5.0]]
