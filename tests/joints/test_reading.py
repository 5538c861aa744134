"""A read of the tables: its sums, what float32 does to them, and that a rule is read once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from joints.test_metrics_against_enumeration import all_joints, blocks, in_tiles_of, tables_of
from joints.test_metrics_float32 import TOKENS, heavy_tailed, in_float64
from support.constructions import mrf
from unmask.common.cloze import Cloze
from unmask.joints.joint import Joint
from unmask.joints.reading import read_joints
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import Tables, unary_tables


@settings(max_examples=30, deadline=None)
@given(blocks(), st.integers(1, 40))
def test_a_reading_holds_the_normaliser_and_the_marginals(case, tile_cells):
    tables = tables_of(case)
    with in_tiles_of(tile_cells):
        joints = all_joints(tables)
        readings = read_joints(joints)
    for joint, reading in zip(joints, readings, strict=True):
        cells = joint.rule(tuple(slice(0, n) for n in joint.shape)).expand(joint.shape)
        assert reading.log_z == pytest.approx(
            float(cells.logsumexp(tuple(range(joint.sites)))), abs=1e-11
        )
        for t, marginal in enumerate(reading.log_marginals):
            torch.testing.assert_close(
                marginal, joint.dense().expand(joint.shape).logsumexp(t, keepdim=True)
            )


def test_a_joint_is_read_once():
    tables = unary_tables(TabularMLM.random(3, 2, seed=2), Cloze((3, 3), (0, 1)))
    reads = []

    def counted(index):
        reads.append(index)
        return mrf(tables).rule(index)

    joint, other = Joint("counted", tables, counted), mrf(tables)
    (first,) = read_joints([joint])
    assert len(reads) == 1
    again, fresh = read_joints([joint, other])
    assert again is first
    assert len(reads) == 1
    torch.testing.assert_close(fresh.kl[0], first.kl[0])


def test_a_sum_of_probabilities_would_underflow_where_the_reading_does_not():
    tables = heavy_tailed(absurd=120.0)
    (reading,) = read_joints([mrf(tables)])
    naive = [(mrf(tables).dense().exp()).sum(t, keepdim=True).log() for t in range(2)]
    for t in range(2):
        assert naive[t].isinf().sum() >= 20
        assert reading.log_marginals[t].isfinite().all()
        assert reading.kl[t].isfinite().all()
        exact = mrf(in_float64(tables)).dense().logsumexp(t, keepdim=True)
        torch.testing.assert_close(reading.log_marginals[t], exact, rtol=1e-6, atol=2e-5)


def test_divergences_are_free_of_the_rounding_of_the_tables_normalisation():
    """A joint that has the float32 table as its conditional has divergence zero, however the
    table's sums are rounded.
    """
    tables = heavy_tailed(absurd=0.0)
    column = torch.linspace(-40, 5, TOKENS)[None, :]
    (reading,) = read_joints(
        [Joint("faithful", tables, lambda index: tables.log_q[0][index] + column[:, index[1]])]
    )
    assert float(reading.kl[0].abs().max()) < 2e-5
    assert float(reading.kl[1].mean()) > 0.1


class Scaled:
    """The cells of the first table times e^by, with their exponentials as a rule of the family
    gives them.
    """

    def __init__(self, tables: Tables, by: float) -> None:
        self.log_q, self.by = tables.log_q[0], by

    def __call__(self, index):
        return self.log_q[index] + self.by

    def probabilities(self, index, q):
        return self(index).exp()


@pytest.mark.parametrize("by", [-100.0, -80.0, 0.0, 92.0])
def test_exponentials_that_leave_the_range_of_float32_are_not_used(by):
    tables = heavy_tailed(absurd=0.0)
    assert bool((tables.log_q[0] > -80).all()), "the table itself is within the range"
    exponentials = Scaled(tables, by).probabilities((slice(None), slice(None)), None)
    lost = bool(
        (exponentials < torch.finfo(torch.float32).tiny).any() or exponentials.isinf().any()
    )
    assert lost == (by != 0)
    (by_exponentials,) = read_joints([Joint("scaled", tables, Scaled(tables, by))])
    (by_logarithms,) = read_joints([Joint("scaled", tables, Scaled(tables, by).__call__)])
    assert by_exponentials.log_z == pytest.approx(by_logarithms.log_z, rel=1e-6)
    of_exponentials = (*by_exponentials.kl, *by_exponentials.log_marginals)
    of_logarithms = (*by_logarithms.kl, *by_logarithms.log_marginals)
    for mine, theirs in zip(of_exponentials, of_logarithms, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
