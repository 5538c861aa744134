"""Results 5 and 7, total correlation, and approximate tensorisation."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_models import random_table, random_tables
from scipy.special import entr, rel_entr

from unmask.lab.dynamics import (
    block_dynamics,
    conditional,
    divergences,
    parallel_step,
    product_conditional,
    spectral_gap,
    stationary_law,
    tensorisation_constant,
    total_variation,
    uniform_masks,
)
from unmask.lab.model import curie_weiss, ising, outcomes, slots_model, stutter_pair
from unmask.lab.schedules import Entropies

models = random_tables(2.0)


def test_the_parallel_steps_law_is_off():
    """Result 5: N=5, coupling .4, fields evenly from -.35 to .35."""
    model = curie_weiss(5, 0.4, np.linspace(-0.35, 0.35, 5))
    off = [total_variation(stationary_law(parallel_step(model, uniform_masks(model.space, k))), model.p) for k in range(1, 6)]
    assert off[0] < 1e-14
    assert off == sorted(off)
    assert (round(off[1], 3), round(off[4], 2)) == (0.018, 0.69)


@settings(max_examples=40, deadline=None)
@given(models, st.data())
def test_total_correlation_is_the_divergence_from_the_product(model, data):
    mask = tuple(sorted(data.draw(st.sets(st.integers(0, model.space.sites - 1), min_size=1))))
    exact, product = conditional(model.space, model.p, mask), product_conditional(model.space, model.p, mask)
    expected = float(model.p @ (np.log(exact) - np.log(product)))
    rest = [i for i in range(model.space.sites) if i not in mask]
    assert Entropies(model).total_correlation(mask, rest) == pytest.approx(expected, abs=1e-12)
    assert expected > -1e-13


def test_pairs_depend_on_each_other_given_the_rest_along_edges_only():
    entropies = Entropies(ising(0.5, np.full(5, 0.1), "path"))
    matrix = np.array([[entropies.total_correlation((i, j), set(range(5)) - {i, j}) for j in range(5)] for i in range(5)])
    np.fill_diagonal(matrix, 0)
    joined = np.abs(np.subtract.outer(range(5), range(5))) == 1
    assert matrix[joined].min() > 0.05
    assert np.abs(matrix[~joined]).max() < 1e-13


@given(st.floats(0.01, 0.99))
@example(0.5)
def test_the_stutter_toy(weight):
    """Result 7: with weight 1/2, a quarter on the stutter, half on impossible pairs, ln 2 nats."""
    pair = stutter_pair(weight)
    product = product_conditional(pair.space, pair.p, (0, 1)).reshape(3, 3)
    assert product[1, 1] == pytest.approx(weight * (1 - weight), abs=1e-14)
    assert product[pair.p.reshape(3, 3) == 0].sum() == pytest.approx(2 * weight * (1 - weight), abs=1e-14)
    assert Entropies(pair).total_correlation((0, 1)) == pytest.approx(entr([weight, 1 - weight]).sum(), abs=1e-14)


@pytest.mark.parametrize("slots", [2, 3, 6])
def test_slots_follow_the_binomial(slots):
    model = slots_model(slots)
    drawn = outcomes(model, product_conditional(model.space, model.p, tuple(range(slots))))
    assert drawn["missing"] == pytest.approx((1 - 1 / slots) ** slots, abs=1e-14)
    assert drawn["once"] == pytest.approx((1 - 1 / slots) ** (slots - 1), abs=1e-14)
    assert sum(drawn.values()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_tensorisation_of_independent_sites_is_n_over_k(k):
    model = ising(0.0, np.array([0.5, -1.0, 0.2]))
    assert tensorisation_constant(model, uniform_masks(model.space, k)) == pytest.approx(3 / k, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(0, 99))
def test_tensorisation_bounds_every_divergence(seed, k, other):
    model = random_table((2, 2, 2), seed)
    law = uniform_masks(model.space, k)
    constant = tensorisation_constant(model, law)
    assert constant >= 1 / spectral_gap(block_dynamics(model, law), model.p)
    q = random_table((2, 2, 2), other, 2.0)
    whole, masked, _, _ = divergences(model, law, q.log_p)
    assert whole == pytest.approx(rel_entr(q.p, model.p).sum(), abs=1e-13)
    blocks = [
        float(q.p @ (np.log(conditional(q.space, q.p, mask)) - np.log(conditional(q.space, model.p, mask)))) for mask in law.masks
    ]
    assert masked == pytest.approx(np.mean(blocks), abs=1e-12)
    assert whole <= constant * masked * (1 + 1e-6)


def test_tensorisation_can_exceed_the_relaxation_time():
    """Asymmetric models: a finite perturbation hides more than an infinitesimal one."""
    model = curie_weiss(3, 0.4, 0.4)
    law = uniform_masks(model.space, 1)
    assert tensorisation_constant(model, law) > 1.05 / spectral_gap(block_dynamics(model, law), model.p)
