"""Float32 tables with absurd tokens: finite numbers, equal to those of float64 tables."""

from dataclasses import replace

import pytest
import torch

from unmask.joints.arnold_gokhale import FamilyRule
from unmask.joints.closed_forms import chain, hcb, mrf, mrf_logit, product
from unmask.joints.joint import Joint
from unmask.joints.metrics import block_metrics, read_joints
from unmask.joints.registry import Member
from unmask.tables.unary import Tables

TOKENS = 300


def heavy_tailed(absurd: float, seed: int = 0) -> Tables:
    """Float32 tables of a pair: Zipf-like token frequencies, a shared dependence, and tokens
    `absurd` nats below the rest.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    frequency = -1.2 * torch.arange(1, TOKENS + 1).log()
    frequency[-20:] -= absurd
    shared = 2 * normal(TOKENS, TOKENS)
    logits = [
        shared + normal(TOKENS, TOKENS) + frequency[:, None] + 3 * normal(1, TOKENS),
        shared + normal(TOKENS, TOKENS) + frequency[None, :] + 3 * normal(TOKENS, 1),
    ]
    totals = [x.logsumexp(t, keepdim=True) for t, x in enumerate(logits)]
    tokens = torch.arange(TOKENS)
    return Tables(
        candidates=(tokens, tokens),
        log_q=tuple(x.log_softmax(t) for t, x in enumerate(logits)),
        log_inside=tuple(torch.zeros_like(total) for total in totals),
        log_total=tuple(totals),
        log_masked=tuple((normal(TOKENS) + frequency).log_softmax(0) for _ in range(2)),
        log_masked_inside=(0.0, 0.0),
    )


def in_float64(tables: Tables) -> Tables:
    names = ("log_q", "log_inside", "log_total", "log_masked")
    return replace(
        tables, **{name: tuple(x.double() for x in getattr(tables, name)) for name in names}
    )


def joints(tables: Tables) -> list[Joint]:
    """Every construction; the family's members at given marginals, so that no solver stands
    between the two precisions.
    """
    given = (tables.log_masked[1][None, :], tables.log_masked[0][:, None])
    family = [
        Joint(
            f"family {alpha} {restart}",
            tables,
            FamilyRule.at(tables, given, Member(alpha, restart)),
        )
        for alpha, restart in ((0, 0), (0.5, 0), (0.5, 0.2), (1, 0))
    ]
    return [product(tables), mrf_logit(tables), mrf(tables), hcb(tables), chain(tables), *family]


# At 60 nats the tables are within float32's range, and the products of two of their numbers are
# not.
@pytest.mark.parametrize("absurd", [0.0, 30.0, 60.0, 120.0])
def test_float32_tables_give_the_numbers_of_float64(absurd):
    tables = heavy_tailed(absurd)
    found, exact = (block_metrics(joints(t), (3, 299)) for t in (tables, in_float64(tables)))
    assert found.incompatibility == pytest.approx(exact.incompatibility, rel=1e-5)
    for a, b in zip(found.joints, exact.joints, strict=True):
        for name in ("joint_nll", "a_kl", "objective"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-5), (
                a.construction,
                name,
            )
        assert a.g_kl == pytest.approx(b.g_kl, rel=1e-5, abs=1e-6), a.construction
        assert a.unary_nll == pytest.approx(b.unary_nll, rel=1e-5, abs=1e-5), a.construction


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


@pytest.mark.parametrize("by", [-80.0, 0.0, 92.0])
def test_exponentials_that_leave_the_range_of_float32_are_not_used(by):
    tables = heavy_tailed(absurd=0.0)
    assert bool((tables.log_q[0] > -80).all()), "the table itself is within the range"
    exponentials = Scaled(tables, by).probabilities((slice(None), slice(None)), None)
    lost = bool(
        (exponentials < torch.finfo(torch.float32).tiny).any() or exponentials.isinf().any()
    )
    assert lost == (by != 0)
    (found,) = read_joints([Joint("scaled", tables, Scaled(tables, by))])
    (expected,) = read_joints([Joint("scaled", tables, Scaled(tables, by).__call__)])
    assert found.log_z == pytest.approx(expected.log_z, rel=1e-6)
    for mine, theirs in zip(
        (*found.kl, *found.log_marginals), (*expected.kl, *expected.log_marginals), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
