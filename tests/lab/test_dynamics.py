"""Results 1 and 10: block dynamics keep p, with adaptive masks too if the conditional knows; the wrong ones do not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import InputError
from unmask.lab.dynamics import block_dynamics, dense, gibbs, naive_dynamics, parallel_step
from unmask.lab.mask_law import adaptive_masks, surprise_masks, uniform_masks, weighted_masks
from unmask.lab.model import random_table, table_model
from unmask.lab.spectrum import eigenvalues, stationary_law, total_variation
from unmask.lab.spins import curie_weiss, ising, potts

models = st.builds(
    random_table,
    st.lists(st.integers(2, 3), min_size=2, max_size=4),
    st.integers(0, 10**6),
    st.floats(0.1, 3.0),
)


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
                    chance = np.prod([p[same[values[same, i] == values[y, i]]].sum() / total for i in mask])
                out[x, y] += chosen[x] * chance
    return out


@settings(max_examples=25, deadline=None)
@given(models, st.data())
def test_matrices_equal_their_definition(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    for law in (uniform_masks(model.space, k), surprise_masks(model, k, 1.3)):
        for kind, build in (("block", block_dynamics), ("naive", naive_dynamics), ("parallel", parallel_step)):
            np.testing.assert_allclose(dense(build(model, law)), loop_transition(model, law, kind), atol=1e-13)


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
        chain = dense(block_dynamics(model, law))
        np.testing.assert_allclose(chain.sum(1), 1, atol=1e-13)
        assert np.abs(model.p @ chain - model.p).max() < 1e-15
        flow = model.p[:, None] * chain
        assert np.abs(flow - flow.T).max() < 1e-15
        assert eigenvalues(chain, model.p)[0] > -1e-12


@given(models)
@settings(max_examples=30, deadline=None)
def test_masking_everything_is_an_independent_draw(model):
    np.testing.assert_allclose(dense(gibbs(model, model.space.sites)), np.tile(model.p, (model.space.states, 1)), atol=1e-15)


def test_adaptive_chain_with_the_naive_conditional_is_off():
    model = curie_weiss(6, 0.25)
    law = surprise_masks(model, 2, 1.0)
    right, naive = block_dynamics(model, law), naive_dynamics(model, law)
    assert np.abs(model.p @ right - model.p).max() < 1e-16
    assert total_variation(stationary_law(right), model.p) < 1e-14
    assert total_variation(stationary_law(naive), model.p) > 0.2
    blind = uniform_masks(model.space, 2)
    np.testing.assert_allclose(dense(naive_dynamics(model, blind)), dense(block_dynamics(model, blind)), atol=1e-15)


def test_parallel_step_is_gibbs_only_without_dependence():
    independent = ising(0.0, np.array([0.3, -0.5, 1.0]))
    dependent = curie_weiss(3, 0.4)
    for k in (1, 2, 3):
        law = uniform_masks(independent.space, k)
        np.testing.assert_allclose(dense(parallel_step(independent, law)), dense(gibbs(independent, k)), atol=1e-14)
    law = uniform_masks(dependent.space, 2)
    np.testing.assert_allclose(
        dense(parallel_step(dependent, uniform_masks(dependent.space, 1))), dense(gibbs(dependent, 1)), atol=1e-15
    )
    assert np.abs(dense(parallel_step(dependent, law)) - dense(gibbs(dependent, 2))).max() > 0.01
    assert np.abs(dependent.p @ parallel_step(dependent, law) - dependent.p).max() > 1e-3


def test_sparse_and_dense_storage_agree():
    model = ising(0.3, np.linspace(-0.2, 0.2, 7), "cycle")
    sparse_chain, dense_chain = gibbs(model, 1), gibbs(model, 6)
    assert not isinstance(sparse_chain, np.ndarray) and isinstance(dense_chain, np.ndarray)
    assert sparse_chain.nnz == 128 * 8
    np.testing.assert_allclose(dense(sparse_chain), loop_transition(model, uniform_masks(model.space, 1), "block"), atol=1e-14)


def test_impossible_contexts_leave_the_state():
    model = table_model([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    chain = dense(gibbs(model, 1))
    np.testing.assert_allclose(chain.sum(1), 1, atol=1e-15)
    assert chain[8, 8] == 1.0
    assert np.abs(model.p @ chain - model.p).max() < 1e-16


def test_a_law_for_another_space_is_told():
    law = surprise_masks(curie_weiss(3, 0.1), 1)
    with pytest.raises(InputError, match="made for 8 states, used with 16"):
        block_dynamics(curie_weiss(4, 0.1), law)
    with pytest.raises(InputError, match=r"a table \(3, 8\)"):
        replace(law, space=curie_weiss(4, 0.1).space)


def test_potts_keeps_its_law():
    model = potts(3, 0.7, np.array([0.1, 0.0, -0.4]))
    for k in (1, 2, 3):
        assert np.abs(model.p @ gibbs(model, k) - model.p).max() < 1e-15
