"""Truths about all constructions for two, three and four blanks, and about joints over
candidate sets.
"""

from itertools import product as cartesian
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import NAMES, hcb
from support.joint_cases import (
    ITERATED,
    exactly,
    random_joint,
    random_tables,
    seeds,
    sizes,
    tables_of,
)
from unmask.common.errors import InputError
from unmask.joints.deriving import derive

RESTRICTABLE = ("product", "mrf", "mrf_logit", "hcb", "chain")


@settings(max_examples=10, deadline=None)
@given(sizes, seeds)
def test_every_joint_is_a_distribution_with_its_own_conditionals(size, seed):
    tables = random_tables(size, seed)
    for name in NAMES:
        joint = derive(tables, name)
        mu = joint.dense().exp()
        assert float(mu.sum()) == pytest.approx(1, abs=1e-10)
        for t in range(size[0]):
            line = mu.select(t, 0) if size[0] == 1 else mu.movedim(t, -1)[(0,) * (size[0] - 1)]
            torch.testing.assert_close(joint.conditional(t, [0] * (size[0] - 1)), line / line.sum())


def subsets(vocab):
    """Candidate sets in any order, one token at least."""
    return st.lists(st.integers(0, vocab - 1), min_size=1, max_size=vocab, unique=True)


def conditioned(mu, chosen):
    """`mu` given that every site lies among its chosen tokens."""
    for t, tokens in enumerate(chosen):
        mu = mu.index_select(t, torch.tensor(tokens))
    return mu / mu.sum()


@settings(max_examples=20, deadline=None)
@given(sizes, seeds, st.data())
def test_simple_constructions_over_candidates_are_the_whole_joint_given_them(size, seed, data):
    sites, vocab = size
    chosen = [data.draw(subsets(vocab)) for _ in range(sites)]
    whole = random_tables(size, seed)
    cut = random_tables(size, seed, candidates=[torch.tensor(c) for c in chosen])
    pivot = [c[0] for c in chosen]
    for name in RESTRICTABLE:
        pair = (
            (hcb(whole, pivot), hcb(cut, pivot))
            if name == "hcb"
            else (exactly(whole, name), exactly(cut, name))
        )
        expected = conditioned(pair[0].dense().exp(), chosen)
        torch.testing.assert_close(pair[1].dense().exp(), expected, rtol=1e-9, atol=1e-13, msg=name)


@settings(max_examples=15, deadline=None)
@given(sizes, seeds, st.data())
def test_over_candidates_of_compatible_tables_the_joint_is_the_true_one_given_them(
    size, seed, data
):
    sites, vocab = size
    chosen = [data.draw(subsets(vocab)) for _ in range(sites)]
    p = random_joint(size, seed)
    tables = tables_of(p, [torch.tensor(c) for c in chosen])
    for name in ("hcb", "chain", *ITERATED):
        torch.testing.assert_close(
            exactly(tables, name).dense().exp(), conditioned(p, chosen), rtol=0, atol=1e-8, msg=name
        )
    inside = sum(
        log(float(p.movedim(t, 0).flatten(1).sum(1)[c].sum())) for t, c in enumerate(chosen)
    )
    assert tables.log_mass == pytest.approx(inside, abs=1e-10)


def test_unknown_names_and_pivots_are_refused():
    tables = random_tables((2, 2), 0)
    with pytest.raises(InputError, match="construction 'gibbs' is unknown: use one of product, "):
        derive(tables, "gibbs")
    with pytest.raises(InputError, match="has 1 tokens for 2 blanks"):
        hcb(tables, [0])
    with pytest.raises(InputError, match="pivot token 7 is not among the candidates"):
        hcb(tables, [0, 7])


@pytest.mark.parametrize("name", list(NAMES))
def test_an_argument_s_cells_are_the_same_one_at_a_time(name):
    """A rule is read by tiles and by single cells; both are one function."""
    joint = derive(random_tables((3, 3), 3), name)
    cells = list(cartesian(range(3), repeat=3))
    torch.testing.assert_close(joint.log_prob(torch.tensor(cells)), joint.dense().flatten())
