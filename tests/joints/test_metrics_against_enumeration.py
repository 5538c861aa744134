"""All metrics against sums written out cell by cell, for two and three blanks, in float64."""

from itertools import product
from math import exp, inf, log
from unittest import mock

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.constructions import NAMES, chain, hcb, mrf, mrf_logit
from support.constructions import product as product_joint
from support.joint_cases import ITERATED, tables_from
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.joints.deriving import derive
from unmask.joints.joint import Joint
from unmask.joints.metrics import JointMetrics, block_metrics
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables


@st.composite
def blocks(draw):
    """Two or three blanks of a random model, maybe over candidate sets, and gold tokens among
    them.
    """
    k = draw(st.integers(2, 3))
    vocab = draw(st.integers(2, 5 if k == 2 else 3))
    length = draw(st.integers(k, 3))
    block = draw(st.permutations(range(length)))[:k]
    ids = [
        vocab if position in block else draw(st.integers(0, vocab - 1))
        for position in range(length)
    ]
    tokens = st.lists(st.integers(0, vocab - 1), min_size=1, max_size=vocab, unique=True)
    candidates = draw(st.just([list(range(vocab))] * k) | st.tuples(*[tokens] * k))
    gold = tuple(draw(st.sampled_from(c)) for c in candidates)
    model = {
        "vocab_size": vocab,
        "length": length,
        "seed": draw(st.integers(0, 9999)),
        "scale": draw(st.floats(0.1, 4)),
    }
    return model, Cloze(tuple(ids), tuple(block), gold), candidates


def tables_of(case):
    model, cloze, candidates = case
    return unary_tables(TabularMLM.random(**model), cloze, [torch.tensor(c) for c in candidates])


def all_joints(tables):
    """Every construction, few steps for those that iterate: any joint will do here."""
    iterated = [derive(tables, name, steps=3) for name in ITERATED]
    return [
        product_joint(tables),
        mrf_logit(tables),
        mrf(tables),
        hcb(tables),
        *iterated,
        chain(tables),
    ]


def lines(shape, t):
    """For each context of site t, the cells that differ at t alone."""
    for context in product(*[range(1 if s == t else n) for s, n in enumerate(shape)]):
        yield [tuple(x if s == t else c for s, c in enumerate(context)) for x in range(shape[t])]


def minus_log(p):
    return -log(p) if p else inf


def enumerated(joint, gold):
    """The metrics of one joint from its dense cells, one sum at a time."""
    tables, k = joint.tables, joint.sites
    mu = joint.dense().exp()
    places = tuple(tables.candidates[t].tolist().index(token) for t, token in enumerate(gold))
    averages, gold_kl, unary, objective = [], [], [], 0.0
    for t in range(k):
        divergences = []
        for line in lines(joint.shape, t):
            q = [float(tables.log_q[t][cell].exp()) for cell in line]
            mass = sum(float(mu[cell]) for cell in line)
            own = [float(mu[cell]) / mass if mass else 0.0 for cell in line]
            divergence = sum(a * (log(a) + minus_log(b)) for a, b in zip(q, own, strict=True) if a)
            divergences.append(divergence)
            if places in line:
                gold_kl.append(divergence)
                unary.append(minus_log((q if joint.name == "product" else own)[places[t]]))
        averages.append(sum(divergences) / len(divergences))
        objective += sum(divergences)
    return JointMetrics(
        joint.name,
        tuple(unary),
        minus_log(float(mu[places])),
        sum(averages) / k,
        sum(gold_kl) / k,
        objective,
    )


def in_tiles_of(cells):
    return mock.patch("unmask.joints.tiles.CELLS_ON_CPU", cells)


def hold_to_their_sums(joints, gold):
    """Every metric of these joints is the sum over cells that defines it."""
    for joint, metrics in zip(joints, block_metrics(joints, gold).joints, strict=True):
        expected = enumerated(joint, gold)
        assert metrics.construction == expected.construction
        assert metrics.unary_nll == pytest.approx(expected.unary_nll, rel=1e-9, abs=1e-11)
        for name in ("joint_nll", "a_kl", "g_kl", "objective"):
            assert getattr(metrics, name) == pytest.approx(
                getattr(expected, name), rel=1e-9, abs=1e-11
            ), (joint.name, name)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.integers(1, 40))
def test_every_metric_of_every_construction_equals_its_sum_over_cells(case, tile_cells):
    with in_tiles_of(tile_cells):
        joints = all_joints(tables_of(case))
        assert [joint.name for joint in joints] == list(NAMES)
        hold_to_their_sums(joints, case[1].gold)


places = st.tuples(st.integers(0, 3), st.integers(0, 2))


def tables_with_zeros(seed, ruled_out, everywhere):
    """Tables of 4 x 3 tokens. `ruled_out`: cells of each table with probability 0;
    `everywhere`: whether the last token is.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = [torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(2)]
    for t, cells in enumerate(ruled_out):
        for cell in cells:
            logits[t][cell] = -inf
        if everywhere[t]:
            logits[t].select(t, -1).fill_(-inf)
        assume(bool(logits[t].isfinite().any(t).all()))
    return tables_from([f.log_softmax(t) for t, f in enumerate(logits)])


def has_probabilities(joint):
    try:
        return bool(joint.dense().exp().sum() > 0)
    except InputError:
        return False


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 9999),
    st.tuples(*[st.lists(places, max_size=4)] * 2)
    | st.lists(places, max_size=4).map(lambda cells: (cells, cells)),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(1, 20),
    places,
)
def test_tokens_that_the_model_rules_out_add_nothing_to_a_divergence(
    seed, ruled_out, everywhere, tile_cells, gold
):
    tables = tables_with_zeros(seed, ruled_out, everywhere)
    with in_tiles_of(tile_cells):
        joints = [joint for joint in all_joints(tables) if has_probabilities(joint)]
        assert {"product", "mrf", "arnold_gokhale", "pseudo_gibbs", "chain"} - {
            joint.name for joint in joints
        } == set()
        hold_to_their_sums(joints, gold)


def test_perplexities_of_one_block():
    row = JointMetrics("mrf", (1.0, 2.0, 0.5), 4.0, 0.5, 0.1, 9.0)
    assert (row.u_ppl, row.p_ppl) == pytest.approx((exp(3.5 / 3), exp(4 / 3)))


def test_input_that_cannot_be_measured_is_refused():
    model = TabularMLM.random(4, 2, seed=1)
    few = [torch.tensor([0, 2]), torch.tensor([1, 3])]
    tables, others = (unary_tables(model, Cloze((4, 4), (0, 1)), few) for _ in range(2))
    with pytest.raises(InputError, match="gold token 3 is not among the candidates of blank 1"):
        block_metrics([mrf(tables)], (3, 1))
    with pytest.raises(InputError, match="1 gold tokens for 2 blanks"):
        block_metrics([mrf(tables)], (0,))
    with pytest.raises(InputError, match="are not rules over the same tables"):
        block_metrics([mrf(tables), Joint("mrf", others, mrf(others).rule)], (0, 1))
