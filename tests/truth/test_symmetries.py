"""Truths 3 and 4: what permuting tokens and positions does to joints and metrics, and who is
the most faithful.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import NAMES
from support.joint_cases import exactly
from unmask.common.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.joints.metrics import block_metrics
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables

ORDERED = ("hcb",)
"""Constructions that depend on the order of the positions when the tables are incompatible."""
seeds = st.integers(0, 9999)


def all_joints(tables):
    return [exactly(tables, name) for name in NAMES]


def random_tables(vocab, seed, block=(0, 1), candidates=None):
    model = TabularMLM.random(vocab, 2, seed)
    return unary_tables(model, Cloze((vocab, vocab), block), candidates)


def assert_same_metrics(metrics, expected, skip=()):
    for a, b in zip(metrics.joints, expected.joints, strict=True):
        if a.construction not in skip:
            assert (a.joint_nll, a.a_kl, a.g_kl) == pytest.approx(
                (b.joint_nll, b.a_kl, b.g_kl), abs=1e-5
            ), a.construction


@settings(max_examples=6, deadline=None)
@given(seeds, st.permutations(range(4)), st.permutations(range(4)))
def test_permuting_the_tokens_permutes_the_joint_and_leaves_the_metrics(seed, first, second):
    plain = all_joints(random_tables(4, seed))
    moved = all_joints(
        random_tables(4, seed, candidates=[torch.tensor(first), torch.tensor(second)])
    )
    for a, b in zip(plain, moved, strict=True):
        torch.testing.assert_close(
            a.dense().exp()[first][:, second], b.dense().exp(), rtol=0, atol=1e-5, msg=a.name
        )
    metrics, expected = block_metrics(moved, (1, 2)), block_metrics(plain, (1, 2))
    assert metrics.incompatibility == pytest.approx(expected.incompatibility, rel=1e-9)
    assert_same_metrics(metrics, expected)


@settings(max_examples=6, deadline=None)
@given(seeds)
def test_swapping_the_positions_transposes_the_joint_unless_the_construction_has_an_order(seed):
    there, back = (
        all_joints(random_tables(4, seed)),
        all_joints(random_tables(4, seed, block=(1, 0))),
    )
    for a, b in zip(there, back, strict=True):
        if a.name not in ORDERED:
            torch.testing.assert_close(
                a.dense().exp(), b.dense().exp().T, rtol=0, atol=1e-5, msg=a.name
            )
    assert_same_metrics(block_metrics(back, (2, 1)), block_metrics(there, (1, 2)), skip=ORDERED)


def test_hcb_depends_on_the_order():
    there, back = random_tables(4, 5), random_tables(4, 5, block=(1, 0))
    gap = derive(there, "hcb").dense().exp() - derive(back, "hcb").dense().exp().T
    assert float(gap.abs().max()) > 1e-2


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([(2, 4), (3, 3)]), seeds)
def test_arnold_gokhale_has_the_lowest_objective_and_average_divergence(size, seed):
    sites, vocab = size
    tables = unary_tables(
        TabularMLM.random(vocab, sites, seed), Cloze((vocab,) * sites, tuple(range(sites)))
    )
    by_name = {m.construction: m for m in block_metrics(all_joints(tables), (0,) * sites).joints}
    best = by_name.pop("arnold_gokhale")
    for other in by_name.values():
        assert best.objective <= other.objective + 1e-9, other.construction
        assert best.a_kl <= other.a_kl + 1e-9, other.construction
