"""Spaces, models and mask laws: enumeration, closed forms, and what users can get wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.random_models import curie_weiss, random_table, weighted_masks
from unmask.common.errors import InputError
from unmask.studies.lab.dynamics import MaskLaw, surprise_masks, uniform_masks
from unmask.studies.lab.model import Space, edges, ising, table_model


def test_states_are_in_c_order_and_siblings_share_their_context():
    space = Space((2, 3))
    assert space.values.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert space.siblings((0,)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert space.siblings((1,)).tolist() == [[0, 1, 2], [3, 4, 5]]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_sum_over_equals_a_loop(sizes, data):
    space = Space(tuple(sizes))
    mask = tuple(sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1)))))
    f = np.random.default_rng(0).normal(size=(space.states, 2))
    rest = [i for i in range(len(sizes)) if i not in mask]
    for x, row in zip(space.values, space.sum_over(mask, f), strict=True):
        same = (space.values[:, rest] == x[rest]).all(1)
        np.testing.assert_allclose(row, f[same].sum(0), atol=1e-12)


@given(
    st.floats(-1.5, 1.5),
    st.lists(st.floats(-1, 1), min_size=2, max_size=5),
    st.sampled_from(["complete", "cycle", "path"]),
)
def test_ising_equals_a_loop_over_pairs(coupling, fields, graph):
    model = ising(coupling, np.array(fields), graph)
    spins = 2 * model.space.values - 1
    energy = [
        coupling * sum(x[i] * x[j] for i, j in edges(graph, len(fields)))
        + sum(h * v for h, v in zip(fields, x, strict=True))
        for x in spins
    ]
    weight = np.exp(energy)
    np.testing.assert_allclose(model.p, weight / weight.sum(), rtol=1e-10)


def test_a_space_too_large_is_refused():
    with pytest.raises(
        InputError, match="11 sites make 2,048 states, and the lab enumerates 1,024: use fewer"
    ):
        curie_weiss(11, 0.1)
    assert curie_weiss(10, 0.1).space.states == 1024


def test_couplings_that_overflow_are_refused():
    with pytest.raises(
        InputError, match="log-weights of the states differ by 36,000.*use smaller couplings"
    ):
        curie_weiss(6, 2000)
    with pytest.raises(InputError, match="differ by nan"), np.errstate(invalid="ignore"):
        curie_weiss(4, float("inf"))
    assert curie_weiss(6, 33.0).p.min() > 0


def test_k_out_of_range_is_refused():
    with pytest.raises(InputError, match="k = 0 masked sites of 3: use k from 1 to 3"):
        uniform_masks(Space((2, 2, 2)), 0)


def test_mask_laws_are_distributions():
    model = random_table((2, 3, 2), 1)
    law = surprise_masks(model, 2, 1.5)
    np.testing.assert_allclose(law.probability.sum(0), 1, atol=1e-12)
    assert law.adaptive
    assert not uniform_masks(model.space, 2).adaptive
    flat = surprise_masks(model, 2, 0.0)
    np.testing.assert_allclose(flat.probability, 1 / 3, atol=1e-15)
    weighted = weighted_masks(model.space, {(2, 0): 3.0, (1,): 1.0})
    assert weighted.masks == ((0, 2), (1,))
    assert weighted.probability[:, 0].tolist() == [0.75, 0.25]


def test_bad_mask_laws_are_refused():
    space = Space((2, 2))
    with pytest.raises(InputError, match="must be at least 0"):
        weighted_masks(space, {(0,): -1.0, (1,): 2.0})
    with pytest.raises(InputError, match="sum to 1"):
        MaskLaw("half", space, ((0,),), np.array([[0.5]]))
    with pytest.raises(InputError, match="every state possible"):
        surprise_masks(table_model([[0.5, 0.5], [0.0, 0.0]]), 1)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([0.5, float("nan")], "the least is nan"),
        ([1.5, -0.5], "the least is -0.5"),
        ([0.5, 0.4], "the sum 0.9"),
        ([], "the sum 0, and 0 are not 0"),
        ([0.0, 1.0], "1 are not 0: give probabilities of two or more states"),
        ([1 - 1e-300, 1e-300], "raise the smallest probabilities"),
    ],
)
def test_a_table_that_is_not_a_model_says_why(cells, message):
    with pytest.raises(InputError, match=message):
        table_model(cells).p  # noqa: B018
