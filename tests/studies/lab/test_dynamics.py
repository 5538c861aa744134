"""Results 1, 4, 5 and 10: block dynamics keep p, parallel steps do not; gaps and mixing times."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_models import adaptive_masks, curie_weiss, random_tables, weighted_masks
from unmask.common.errors import InputError
from unmask.studies.lab.dynamics import (
    block_dynamics,
    dirichlet_form,
    gibbs,
    mixing_time,
    naive_dynamics,
    parallel_step,
    slowest,
    spectral_gap,
    stationary_law,
    surprise_masks,
    total_variation,
    uniform_masks,
)
from unmask.studies.lab.model import ising, table_model

models = random_tables(3.0)


def loop_transition(model, law, kind):
    """The same matrices from their definition, state by state."""
    values, p = model.space.values, model.p
    out = np.zeros((len(p), len(p)))
    for x in range(len(p)):
        for index, mask in enumerate(law.masks):
            chosen = law.at(index)
            rest = [i for i in range(model.space.sites) if i not in mask]
            same = np.flatnonzero((values[:, rest] == values[x, rest]).all(1))
            total, weighted = p[same].sum(), (p[same] * chosen[same]).sum()
            for y in same:
                if kind == "block":
                    chance = p[y] * chosen[y] / weighted
                elif kind == "naive":
                    chance = p[y] / total
                else:
                    chance = np.prod(
                        [p[same[values[same, i] == values[y, i]]].sum() / total for i in mask]
                    )
                out[x, y] += chosen[x] * chance
    return out


@settings(max_examples=25, deadline=None)
@given(models, st.data())
def test_matrices_equal_their_definition(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    for law in (uniform_masks(model.space, k), surprise_masks(model, k, 1.3)):
        for kind, build in (
            ("block", block_dynamics),
            ("naive", naive_dynamics),
            ("parallel", parallel_step),
        ):
            np.testing.assert_allclose(
                build(model, law), loop_transition(model, law, kind), atol=1e-13
            )


@settings(max_examples=60, deadline=None)
@given(models, st.data())
def test_block_dynamics_is_reversible_invariant_and_positive(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    masks = model.space.masks(k)
    weights = data.draw(st.lists(st.floats(0.01, 1), min_size=len(masks), max_size=len(masks)))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    for law in (
        uniform_masks(model.space, k),
        weighted_masks(model.space, dict(zip(masks, weights, strict=True))),
        adaptive_masks(model.space, k, lambda mask: generator.normal(size=model.space.states)),
    ):
        chain = block_dynamics(model, law)
        np.testing.assert_allclose(chain.sum(1), 1, atol=1e-13)
        assert np.abs(model.p @ chain - model.p).max() < 1e-15
        flow = model.p[:, None] * chain
        assert np.abs(flow - flow.T).max() < 1e-15
        assert np.linalg.eigvalsh(flow / np.sqrt(np.outer(model.p, model.p)))[0] > -1e-12


def test_surprise_is_as_sharp_as_the_tokens_are_improbable_unless_said_otherwise():
    """p(K | x) is in proportion to prod_{i in K} 1 / p(x_i | x_{-i}), text by text."""
    model = table_model([[0.4, 0.1, 0.1], [0.05, 0.2, 0.15]])
    table = model.p.reshape(2, 3)
    first, second = table / table.sum(0), table / table.sum(1, keepdims=True)
    weights = np.stack([1 / first.ravel(), 1 / second.ravel()])
    law = surprise_masks(model, 1)
    assert tuple(law.masks) == ((0,), (1,))
    np.testing.assert_allclose(law.probability, weights / weights.sum(0), rtol=1e-12)
    sharper, raised = surprise_masks(model, 1, 1.6), weights**1.6
    np.testing.assert_allclose(sharper.probability, raised / raised.sum(0), rtol=1e-12)
    assert np.abs(sharper.probability - law.probability).max() > 0.05


def test_adaptive_chain_with_the_naive_conditional_is_off():
    model = curie_weiss(6, 0.25)
    law = surprise_masks(model, 2, 1.0)
    right, naive = block_dynamics(model, law), naive_dynamics(model, law)
    assert np.abs(model.p @ right - model.p).max() < 1e-16
    assert total_variation(stationary_law(right), model.p) < 1e-14
    assert total_variation(stationary_law(naive), model.p) > 0.2
    blind = uniform_masks(model.space, 2)
    np.testing.assert_allclose(
        naive_dynamics(model, blind), block_dynamics(model, blind), atol=1e-15
    )


def test_impossible_contexts_leave_the_state():
    model = table_model([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    chain = gibbs(model, 1)
    np.testing.assert_allclose(chain.sum(1), 1, atol=1e-15)
    assert chain[8, 8] == 1.0
    assert np.abs(model.p @ chain - model.p).max() < 1e-16


@pytest.mark.parametrize(
    ("coupling", "gap", "digits", "steps"),
    [(0.1, 0.0877, 4, 13), (0.3, 0.00997, 5, 76), (0.6, 0.0001, 6, 6908)],
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


@pytest.mark.parametrize("sites", [4, 7])
def test_gap_of_the_cycle_is_glaubers(sites):
    """(1 - tanh 2 beta) / N."""
    model = ising(0.3, np.zeros(sites), "cycle")
    assert spectral_gap(gibbs(model, 1), model.p) == pytest.approx(
        (1 - math.tanh(0.6)) / sites, rel=1e-9
    )


def test_gaps_below_rounding_are_still_found():
    """From coupling 1 to 2 the gap falls by about the barrier's e^-18; 1 - lambda_2 alone would
    be noise.
    """
    gaps = [spectral_gap(gibbs(m, 1), m.p) for m in (curie_weiss(6, b) for b in (1.0, 1.5, 2.0))]
    slopes = -np.diff(np.log(gaps)) / 0.5
    assert gaps[-1] < 1e-14
    assert mixing_time(gibbs(curie_weiss(6, 3.0), 1), curie_weiss(6, 3.0).p) == math.inf
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
    steps, power = 1, chain
    while 0.5 * np.abs(power - model.p).sum(1).max() > 0.25:
        power, steps = power @ (chain), steps + 1
    assert mixing_time(chain, model.p) == steps


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


def test_states_left_for_good_have_no_weight():
    chain = np.array([[0.5, 0.3, 0.2], [0.0, 0.4, 0.6], [0.0, 0.8, 0.2]])
    np.testing.assert_allclose(stationary_law(chain), [0, 4 / 7, 3 / 7], atol=1e-15)
    np.testing.assert_allclose(stationary_law(chain[::-1, ::-1]), [3 / 7, 4 / 7, 0], atol=1e-15)


def test_reducible_chains_and_single_states_are_refused():
    with pytest.raises(InputError, match="3 classes of states that it cannot leave"):
        stationary_law(np.eye(3))
    with pytest.raises(InputError, match="two or more states"):
        table_model([[1.0, 0.0]])


models = random_tables(2.0)


def test_the_parallel_steps_law_is_off():
    """Result 5: N=5, coupling .4, fields evenly from -.35 to .35."""
    model = curie_weiss(5, 0.4, np.linspace(-0.35, 0.35, 5))
    off = [
        total_variation(
            stationary_law(parallel_step(model, uniform_masks(model.space, k))), model.p
        )
        for k in range(1, 6)
    ]
    assert off[0] < 1e-14
    assert off == sorted(off)
    assert (round(off[1], 3), round(off[4], 2)) == (0.018, 0.69)
