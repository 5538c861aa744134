"""Results 2 and 3: information is a Dirichlet form; theorems 1 and 2, and where theorem 2 stops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_models import curie_weiss, least_eigenvalue, random_table, weighted_masks
from unmask.studies.lab.dynamics import (
    block_dynamics,
    dirichlet_form,
    spectral_gap,
    surprise_masks,
    uniform_masks,
)
from unmask.studies.lab.estimation import (
    averaged_block_covariance,
    block_covariance,
    block_information,
    covariances,
    drops,
    factorised_covariance,
    fisher_information,
    mean_cost,
    slow_direction,
    worst_cost,
)
from unmask.studies.lab.model import ising


@st.composite
def families(draw):
    """Ising models with their own couplings and fields, and saturated tables."""
    if draw(st.booleans()):
        return random_table(
            draw(st.sampled_from([(2, 2, 2), (2, 3, 2), (3, 3)])), draw(st.integers(0, 10**6)), 0.7
        )
    sites = draw(st.integers(3, 4))
    fields = np.array(draw(st.lists(st.floats(-0.6, 0.6), min_size=sites, max_size=sites)))
    pairs = sites * (sites - 1) // 2
    return ising(draw(st.lists(st.floats(-0.6, 0.6), min_size=pairs, max_size=pairs)), fields)


@settings(max_examples=40, deadline=None)
@given(families(), st.data())
def test_information_is_the_dirichlet_form_of_the_score(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    v = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=len(model.theta))
    v /= np.linalg.norm(v)
    for law in (
        uniform_masks(model.space, k),
        weighted_masks(model.space, {mask: 1.0 + i for i, mask in enumerate(model.space.masks(k))}),
        surprise_masks(model, k, 1.0),
    ):
        energy = dirichlet_form(block_dynamics(model, law), model.p, model.score @ v)
        assert v @ block_information(model, law) @ v == pytest.approx(energy, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(families(), st.data())
def test_theorem_1_adaptive_masks_included(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    inverse = np.linalg.inv(fisher_information(model))
    for law in (uniform_masks(model.space, k), surprise_masks(model, k, 1.0)):
        gap = spectral_gap(block_dynamics(model, law), model.p)
        covariance = block_covariance(model, law)
        scale = np.linalg.eigvalsh(inverse)[-1] / gap
        assert least_eigenvalue(inverse / gap - covariance) > -1e-9 * scale
        cost = worst_cost(covariance, fisher_information(model))
        assert mean_cost(covariance, fisher_information(model)) <= cost * (1 + 1e-9)
        assert 1 - 1e-8 <= cost <= (1 + 1e-8) / gap


@settings(max_examples=40, deadline=None)
@given(families())
def test_theorem_2_masking_more_is_better_in_every_direction(model):
    curve = [
        block_covariance(model, uniform_masks(model.space, k))
        for k in range(1, model.space.sites + 1)
    ]
    for more, less in zip(curve[1:], curve, strict=False):
        assert least_eigenvalue(less - more) > -1e-9 * np.trace(less)
    np.testing.assert_allclose(
        curve[-1],
        np.linalg.inv(fisher_information(model)),
        rtol=1e-6,
        atol=1e-9 * np.trace(curve[-1]),
    )


@pytest.fixture(scope="module")
def complete_graph():
    return covariances(curie_weiss(6, 0.25, np.linspace(-0.5, 0.5, 6)))


def test_traces_on_the_complete_graph(complete_graph):
    """Result 3: N=6, coupling .25; every coupling and every field is a parameter, fields evenly
    from -.5 to .5.
    """
    block = [np.trace(g) for g in complete_graph["block"]]
    factorised = [np.trace(g) for g in complete_graph["factorised"]]
    np.testing.assert_allclose(block, [209, 111, 80, 67, 61, 60], atol=0.5)
    np.testing.assert_allclose(factorised[:5], [209, 125, 111, 131, 218], atol=0.5)
    assert np.isinf(factorised[5])


def test_factorised_heads_break_theorem_2(complete_graph):
    assert min(drops(complete_graph["block"])) > -1e-9
    fall = drops(complete_graph["factorised"])
    assert fall[0] > 0
    assert max(fall[1:]) < -0.3


def test_averaging_all_masks_breaks_theorem_2(complete_graph):
    assert min(drops(complete_graph["averaged"])) < -5e-6
    slow = slow_direction(curie_weiss(5, 0.5))
    best = 1 / fisher_information(slow)[0, 0]
    curves = covariances(slow)
    averaged = [float(g[0, 0]) / best for g in curves["averaged"]]
    one = [float(g[0, 0]) / best for g in curves["block"]]
    np.testing.assert_allclose(averaged, [1, 1.455, 3.647, 1.416, 1], atol=1e-3)
    assert all(a >= b for a, b in itertools.pairwise(one))


@settings(max_examples=30, deadline=None)
@given(families(), st.data())
def test_averaging_masks_is_no_worse_than_one_mask_and_no_better_than_likelihood(model, data):
    law = uniform_masks(model.space, data.draw(st.integers(1, model.space.sites)))
    one, averaged = block_covariance(model, law), averaged_block_covariance(model, law)
    assert least_eigenvalue(one - averaged) > -1e-8 * np.trace(one)
    assert least_eigenvalue(averaged - np.linalg.inv(fisher_information(model))) > -1e-7 * np.trace(
        one
    )


def test_everything_masked_leaves_factorised_couplings_unidentified():
    model = curie_weiss(3, 0.2)
    covariance = factorised_covariance(model, uniform_masks(model.space, 3))
    assert np.isinf(covariance).all()
    assert worst_cost(covariance, fisher_information(model)) == np.inf
    fields_only = ising(0.0, np.array([0.2, -0.3, 0.5])).along(np.arange(8.0) // 4)
    assert np.isfinite(
        factorised_covariance(fields_only, uniform_masks(fields_only.space, 3))
    ).all()


def test_a_drop_to_or_from_parameters_that_are_not_identified_is_infinite():
    finite, infinite = np.eye(2), np.full((2, 2), np.inf)
    assert drops([infinite, infinite, finite, finite / 2, infinite]) == [0.0, np.inf, 0.5, -np.inf]
