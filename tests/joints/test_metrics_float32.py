"""Float32 tables with absurd tokens: finite numbers, equal to those of float64 tables."""

from dataclasses import replace

import pytest
import torch

from support.constructions import chain, hcb, mrf, mrf_logit, product
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.family_rule import FamilyRule
from unmask.joints.joint import Joint
from unmask.joints.metrics import block_metrics
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
    log_marginals = (tables.log_masked[1][None, :], tables.log_masked[0][:, None])
    family = [
        Joint(
            f"family {alpha} {restart}",
            tables,
            FamilyRule.at(tables, log_marginals, Member(alpha, restart)),
        )
        for alpha, restart in ((0, 0), (0.5, 0), (0.5, 0.2), (1, 0))
    ]
    return [product(tables), mrf_logit(tables), mrf(tables), hcb(tables), chain(tables), *family]


# At 60 nats the tables are within float32's range, and the products of two of their numbers are
# not.
@pytest.mark.parametrize("absurd", [0.0, 30.0, 60.0, 120.0])
def test_float32_tables_give_the_numbers_of_float64(absurd):
    tables = heavy_tailed(absurd)
    single, exact = (block_metrics(joints(t), (3, 299)) for t in (tables, in_float64(tables)))
    assert single.incompatibility == pytest.approx(exact.incompatibility, rel=1e-5)
    for a, b in zip(single.joints, exact.joints, strict=True):
        for name in ("joint_nll", "a_kl", "objective"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-5), (
                a.construction,
                name,
            )
        assert a.g_kl == pytest.approx(b.g_kl, rel=1e-5, abs=1e-6), a.construction
        assert a.unary_nll == pytest.approx(b.unary_nll, rel=1e-5, abs=1e-5), a.construction
