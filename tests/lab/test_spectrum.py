"""Gaps, mixing times, stationary laws: closed forms, plain powers, and result 4."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import InputError
from unmask.lab import spectrum
from unmask.lab.dynamics import dense, gibbs, naive_dynamics, parallel_step
from unmask.lab.mask_law import surprise_masks, uniform_masks
from unmask.lab.model import random_table, table_model
from unmask.lab.spectrum import dirichlet_form, mixing_time, slowest, spectral_gap, stationary_law, total_variation
from unmask.lab.spins import curie_weiss, ising

models = st.builds(random_table, st.lists(st.integers(2, 3), min_size=2, max_size=4), st.integers(0, 10**6), st.floats(0.1, 2.0))


@pytest.mark.parametrize(
    ("coupling", "gap", "digits", "steps"), [(0.1, 0.0877, 4, 13), (0.3, 0.00997, 5, 76), (0.6, 0.0001, 6, 6908)]
)
def test_strong_dependence_is_slow(coupling, gap, digits, steps):
    """Result 4: Curie-Weiss, N=6, h=0, k=1."""
    model = curie_weiss(6, coupling)
    chain = gibbs(model, 1)
    assert round(spectral_gap(chain, model.p), digits) == gap
    assert mixing_time(chain, model.p) == steps


@given(st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=5), st.data())
@settings(max_examples=30, deadline=None)
def test_gap_of_independent_sites_is_k_over_n(fields, data):
    model = ising(0.0, np.array(fields))
    k = data.draw(st.integers(1, len(fields)))
    assert spectral_gap(gibbs(model, k), model.p) == pytest.approx(k / len(fields), rel=1e-10)


@pytest.mark.parametrize("sites", [4, 7, 11])
def test_gap_of_the_cycle_is_glaubers(sites):
    """(1 - tanh 2 beta) / N; 11 sites are 2,048 states and take the Lanczos path."""
    model = ising(0.3, np.zeros(sites), "cycle")
    assert (model.space.states > spectrum.DENSE_STATES) == (sites == 11)
    assert spectral_gap(gibbs(model, 1), model.p) == pytest.approx((1 - math.tanh(0.6)) / sites, rel=1e-9)


def test_gaps_below_rounding_are_still_found():
    """From coupling 1 to 2 the gap falls by about the barrier's e^-18; 1 - lambda_2 alone would be noise."""
    gaps = [spectral_gap(gibbs(m, 1), m.p) for m in (curie_weiss(6, b) for b in (1.0, 1.5, 2.0))]
    slopes = -np.diff(np.log(gaps)) / 0.5
    assert gaps[-1] < 1e-14
    np.testing.assert_allclose(slopes, 18, rtol=0.05)


@settings(max_examples=30, deadline=None)
@given(models, st.data())
def test_gap_is_the_least_dirichlet_quotient(model, data):
    chain = gibbs(model, data.draw(st.integers(1, model.space.sites)))
    gap, f = slowest(chain, model.p)
    assert model.p @ f == pytest.approx(0, abs=1e-9)
    assert model.p @ f**2 == pytest.approx(1, rel=1e-9)
    g = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=model.space.states)
    variance = model.p @ g**2 - (model.p @ g) ** 2
    energy = dirichlet_form(chain, model.p, g)
    assert energy >= gap * variance * (1 - 1e-9)
    assert energy == pytest.approx(model.p @ (g * (g - chain @ g)), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(models, st.data())
def test_mixing_time_equals_step_by_step(model, data):
    chain = gibbs(model, data.draw(st.integers(1, model.space.sites)))
    steps, power = 1, dense(chain)
    while 0.5 * np.abs(power - model.p).sum(1).max() > 0.25:
        power, steps = power @ dense(chain), steps + 1
    assert mixing_time(chain, model.p) == steps


def test_mixing_time_obeys_the_relaxation_bounds():
    model = curie_weiss(5, 0.4)
    for k in (1, 2, 3):
        chain = gibbs(model, k)
        relaxation, steps = 1 / spectral_gap(chain, model.p), mixing_time(chain, model.p)
        assert (relaxation - 1) * math.log(2) <= steps <= relaxation * math.log(4 / model.p.min())


def test_frozen_chains_do_not_mix():
    model = curie_weiss(6, 3.0)
    assert mixing_time(gibbs(model, 1), model.p) == math.inf


@settings(max_examples=25, deadline=None)
@given(models, st.integers(1, 2))
def test_stationary_law_solves_its_equation(model, k):
    for chain in (
        gibbs(model, k),
        parallel_step(model, uniform_masks(model.space, k)),
        naive_dynamics(model, surprise_masks(model, k)),
    ):
        law = stationary_law(chain)
        assert np.abs(law @ chain - law).max() < 1e-14
        assert law.sum() == pytest.approx(1, abs=1e-12)
    assert total_variation(stationary_law(gibbs(model, k)), model.p) < 1e-11


def test_large_spaces_solve_for_their_law():
    model = ising(0.3, np.linspace(-0.4, 0.4, 10), "cycle")
    assert model.space.states > spectrum.ELIMINATED_STATES
    assert total_variation(stationary_law(gibbs(model, 1)), model.p) < 1e-11


def test_states_left_for_good_have_no_weight():
    chain = np.array([[0.5, 0.3, 0.2], [0.0, 0.4, 0.6], [0.0, 0.8, 0.2]])
    np.testing.assert_allclose(stationary_law(chain), [0, 4 / 7, 3 / 7], atol=1e-15)
    np.testing.assert_allclose(stationary_law(chain[::-1, ::-1]), [3 / 7, 4 / 7, 0], atol=1e-15)


def test_reducible_chains_and_single_states_are_told():
    with pytest.raises(InputError, match="3 classes of states that it cannot leave"):
        stationary_law(np.eye(3))
    alone = table_model([[1.0, 0.0]])
    with pytest.raises(InputError, match="single possible state"):
        spectral_gap(gibbs(alone, 1), alone.p)
