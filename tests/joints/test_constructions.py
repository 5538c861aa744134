"""Truths about all constructions for two, three and four blanks, and about joints over candidate sets."""

from itertools import product as cartesian
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_cases import distance, random_joint, random_tables, seeds, sizes, tables_of, whole_block

from unmask.errors import InputError
from unmask.joints import CONSTRUCTIONS, derive
from unmask.joints.chain import chain
from unmask.joints.hcb import hcb
from unmask.joints.mrf import mrf, mrf_logit
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables

ITERATED = ("arnold_gokhale", "balanced", "pseudo_gibbs", "restarted")
RESTRICTABLE = ("product", "mrf", "mrf_logit", "hcb", "chain", "chain_forward", "chain_backward")


def exactly(tables, name):
    """A construction by name, the iterated ones far beyond the default tolerance."""
    if name.startswith("chain_"):
        return chain(tables, name.removeprefix("chain_"))
    return derive(tables, name, **({"tolerance": 1e-9} if name in ITERATED else {}))


@settings(max_examples=20, deadline=None)
@given(sizes, seeds, st.data())
def test_hcb_with_any_pivot_and_chain_in_any_order_recover_a_joint(size, seed, data):
    p = random_joint(size, seed)
    tables = tables_of(p)
    pivot = [data.draw(st.integers(0, size[1] - 1)) for _ in range(size[0])]
    for joint in (hcb(tables), hcb(tables, pivot), *(chain(tables, order) for order in ("forward", "backward", "mean"))):
        torch.testing.assert_close(joint.dense().exp(), p, rtol=1e-10, atol=1e-13)


def test_a_random_field_does_not_recover_a_joint():
    p = random_joint((2, 5), 11)
    for rule in (mrf, mrf_logit):
        assert distance(rule(tables_of(p)).dense().exp(), p) > 0.05


def test_appendix_b():
    tables = tables_of(torch.tensor([[0.97, 0.01], [0.01, 0.01]], dtype=torch.float64))
    p, q = tables.log_q[0][:, 1].exp(), mrf(tables).conditional(0, [1])
    divergence = float((p * (p.log() - q.log())).sum())
    assert divergence == pytest.approx(log(1 / 196 + 1 / 4) + log(196) / 2, abs=1e-12)
    assert divergence == pytest.approx(1.273, abs=5e-4)


@settings(max_examples=10, deadline=None)
@given(sizes, seeds)
def test_every_joint_is_a_distribution_with_its_own_conditionals(size, seed):
    tables = random_tables(size, seed)
    for name in CONSTRUCTIONS:
        joint = derive(tables, name)
        mu = joint.dense().exp()
        assert float(mu.sum()) == pytest.approx(1, abs=1e-10)
        for t in range(size[0]):
            line = mu.select(t, 0) if size[0] == 1 else mu.movedim(t, -1)[(0,) * (size[0] - 1)]
            torch.testing.assert_close(joint.conditional(t, [0] * (size[0] - 1)), line / line.sum())


@settings(max_examples=10, deadline=None)
@given(sizes, seeds, st.data())
def test_permuting_the_vocabulary_permutes_the_joint(size, seed, data):
    sites, vocab = size
    orders = [torch.tensor(data.draw(st.permutations(range(vocab)))) for _ in range(sites)]
    plain, moved = random_tables(size, seed), random_tables(size, seed, candidates=orders)
    for name in CONSTRUCTIONS:
        expected = exactly(plain, name).dense().exp()
        for t, order in enumerate(orders):
            expected = expected.index_select(t, order)
        torch.testing.assert_close(exactly(moved, name).dense().exp(), expected, rtol=0, atol=1e-7, msg=name)


@settings(max_examples=10, deadline=None)
@given(sizes, seeds, st.data())
def test_permuting_the_positions_transposes_the_joint_unless_it_has_an_order(size, seed, data):
    sites, vocab = size
    order = data.draw(st.permutations(range(sites)))
    model = TabularMLM.random(vocab, sites, seed)
    cloze = whole_block(vocab, sites)
    there, back = unary_tables(model, cloze), unary_tables(model, type(cloze)(cloze.ids, tuple(order)))
    for name in CONSTRUCTIONS:
        if name == "hcb":
            continue
        expected = exactly(there, name).dense().exp().permute(*order)
        torch.testing.assert_close(exactly(back, name).dense().exp(), expected, rtol=0, atol=1e-7, msg=name)


@settings(max_examples=10, deadline=None)
@given(sizes, seeds)
def test_fields_of_logits_and_of_log_probabilities_agree_for_normalised_logits(size, seed):
    sites, vocab = size
    model = TabularMLM.random(vocab, sites, seed)
    normalised = unary_tables(TabularMLM(model.table.log_softmax(-1)), whole_block(vocab, sites))
    torch.testing.assert_close(mrf_logit(normalised).dense(), mrf(normalised).dense())
    raw = random_tables(size, seed)
    assert distance(mrf_logit(raw).dense().exp(), mrf(raw).dense().exp()) > 1e-4


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
        pair = (hcb(whole, pivot), hcb(cut, pivot)) if name == "hcb" else (exactly(whole, name), exactly(cut, name))
        expected = conditioned(pair[0].dense().exp(), chosen)
        torch.testing.assert_close(pair[1].dense().exp(), expected, rtol=1e-9, atol=1e-13, msg=name)


@settings(max_examples=15, deadline=None)
@given(sizes, seeds, st.data())
def test_over_candidates_of_compatible_tables_the_joint_is_the_true_one_given_them(size, seed, data):
    sites, vocab = size
    chosen = [data.draw(subsets(vocab)) for _ in range(sites)]
    p = random_joint(size, seed)
    tables = tables_of(p, [torch.tensor(c) for c in chosen])
    for name in ("hcb", "chain", *ITERATED):
        torch.testing.assert_close(exactly(tables, name).dense().exp(), conditioned(p, chosen), rtol=0, atol=1e-8, msg=name)
    inside = sum(log(float(p.movedim(t, 0).flatten(1).sum(1)[c].sum())) for t, c in enumerate(chosen))
    assert tables.log_mass == pytest.approx(inside, abs=1e-10)


def test_the_family_over_candidates_is_not_the_whole_joint_given_them_when_incompatible():
    """Control of the two tests above: there the contexts outside the candidates have a say too."""
    chosen = [[0, 1, 2], [1, 3]]
    whole, cut = random_tables((2, 5), 4), random_tables((2, 5), 4, candidates=[torch.tensor(c) for c in chosen])
    for name in ITERATED:
        assert distance(exactly(cut, name).dense().exp(), conditioned(exactly(whole, name).dense().exp(), chosen)) > 1e-3


def test_unknown_names_and_orders_are_refused():
    tables = random_tables((2, 2), 0)
    with pytest.raises(InputError, match="construction 'gibbs' is unknown: use one of product, "):
        derive(tables, "gibbs")
    with pytest.raises(InputError, match="order 'both' is unknown"):
        chain(tables, "both")
    with pytest.raises(InputError, match="has 1 tokens for 2 blanks"):
        hcb(tables, [0])
    with pytest.raises(InputError, match="pivot token 7 is not among the candidates"):
        hcb(tables, [0, 7])


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_an_argument_s_cells_are_the_same_one_at_a_time(name):
    """A rule is read by tiles and by single cells; both are one function."""
    joint = derive(random_tables((3, 3), 3), name)
    cells = list(cartesian(range(3), repeat=3))
    torch.testing.assert_close(joint.log_prob(torch.tensor(cells)), joint.dense().flatten())
