"""The likely tokens solved exactly: their equations, and pairs of tokens that hardly meet any
others.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import family
from support.joint_cases import distance, random_tables, seeds, swept, tables_from, without
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.family_rule import FamilyRule
from unmask.joints.members import Members, flat, start, unflat
from unmask.joints.newton import LikelyTokens

SQUARE = [
    Member(0.0),
    Member(0.5),
    Member(1.0),
    Member(0.0, 0.1),
    Member(0.5, 0.05),
    Member(1.0, 0.02),
]
LARGE = (450, 420)
"""More tokens than are taken whole."""


def likely_of(tables, member):
    return LikelyTokens(Members.of([tables], [member]))


def solved(likely, log_mu, times=1):
    """The marginals after so many solves and no sweep."""
    shape = likely.members.blocks[0].shape
    for _ in range(times):
        log_mu = unflat(likely.solve(flat(log_mu)[None, :])[0], shape)
    return log_mu


def imbalance(tables, log_mu, member):
    """How far the row and column sums of the rule's cells are from the marginals that it is
    written with, relatively.
    """
    mu = FamilyRule.at(tables, log_mu, member)((slice(None), slice(None))).exp()
    return [sums / marginal.exp() - 1 for sums, marginal in zip(without(mu), log_mu, strict=True)]


@settings(max_examples=20)
@given(seeds, st.sampled_from(SQUARE))
def test_a_small_vocabulary_is_solved_whole_without_a_sweep(seed, member):
    tables = random_tables((2, 5), seed)
    for residual in imbalance(
        tables, solved(likely_of(tables, member), start(tables), times=8), member
    ):
        assert float(residual.abs().max()) < 1e-10


@pytest.mark.parametrize("member", SQUARE)
def test_with_some_left_out_the_likely_ones_come_into_balance_once_the_others_are(member):
    """What is held is the flow from and to the others at the marginals given, so a fixed point
    stays where it is.
    """
    tables = tables_of_large(3)
    mu = family(tables, *member, tolerance=1e-10).dense().exp()
    stayed = solved(likely_of(tables, member), tuple(m.log() for m in without(mu)))
    for marginal, expected in zip(stayed, without(mu), strict=True):
        torch.testing.assert_close(marginal.exp(), expected, rtol=1e-7, atol=0)
    for residual in imbalance(
        tables, solved(likely_of(tables, member), start(tables), times=12), member
    ):
        balanced = residual.abs() < 1e-4
        assert balanced.sum() >= 128
        assert not balanced.all()


@pytest.mark.parametrize("member", [Member(0.3), Member(1.0), Member(0.3, 0.1)])
@pytest.mark.parametrize("moved", [0.03, 1.0])
def test_old_factors_lead_to_the_same_answer_as_new_ones(member, moved):
    tables = tables_of_large(4)
    again = likely_of(tables, member)
    solved(again, start(tables))
    other = tuple(
        m + moved * torch.sin(torch.arange(m.numel(), dtype=m.dtype)).reshape(m.shape)
        for m in start(tables)
    )
    with_old, with_new = (
        solved(again, other, times=12),
        solved(likely_of(tables, member), other, times=12),
    )
    for mine, fresh in zip(with_old, with_new, strict=True):
        torch.testing.assert_close(mine, fresh, rtol=0, atol=1e-5)
    assert (
        max(float((mine - came).abs().max()) for mine, came in zip(with_old, other, strict=True))
        > 1e-3
    )


def tables_of_large(seed, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    logits = [
        scale * torch.randn(LARGE, generator=generator, dtype=torch.float64) for _ in range(2)
    ]
    masked = [scale * torch.randn(size, generator=generator, dtype=torch.float64) for size in LARGE]
    return tables_from(
        [x.log_softmax(t) for t, x in enumerate(logits)], [x.log_softmax(0) for x in masked]
    )


def two_worlds(bond: float = 9.0):
    """A joint in which token 7 of either blank nearly determines the other, its tables, and a
    start that is wrong about 7.
    """
    logits = torch.randn(LARGE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits[7, :] -= bond
    logits[:, 7] -= bond
    logits[7, 7] = logits.flatten().logsumexp(0) - 1
    p = logits.flatten().softmax(0).reshape(LARGE)
    wrong = [
        torch.zeros(size, dtype=torch.float64)
        .index_fill_(0, torch.tensor([7]), -4.0)
        .log_softmax(0)
        for size in LARGE
    ]
    return p, tables_from([(p / p.sum(t, keepdim=True)).log() for t in range(2)], wrong)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_tokens_that_hardly_meet_others_converge_and_without_help_do_not(alpha):
    p, tables = two_worlds()
    assert 0.2 < float(p[7, 7]) < 0.3
    for initial in (start(tables), start(tables, uniform=True)):
        joint = family(tables, alpha, initial=initial)
        assert joint.report["converged"]
        assert joint.report["steps"] < 25
        assert distance(joint.dense().exp(), p) < 1e-4
    log_mu = start(tables)
    for _ in range(25):
        log_mu = swept(tables, log_mu, Member(alpha))
    assert distance(log_mu[1].exp(), without(p)[1]) > 1e-3


def hardly_mixing(dtype):
    """Incompatible tables of a pair of two worlds that hardly ever lead to each other, in
    `dtype`, and the same in float64.
    """
    generator = torch.Generator().manual_seed(2)
    logits = [1.5 * torch.randn(LARGE, generator=generator, dtype=torch.float64) for _ in range(2)]
    for table in logits:
        table[:30, 30:] -= 9
        table[30:, :30] -= 9
    log_q = [table.log_softmax(t) for t, table in enumerate(logits)]
    masked = [
        torch.randn(n, generator=generator, dtype=torch.float64).log_softmax(0) for n in LARGE
    ]
    rounded = [q.to(dtype) for q in log_q], [m.to(dtype) for m in masked]
    exact = [[x.double() for x in part] for part in rounded]
    return tables_from(*rounded), tables_from(*exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chains_that_hardly_mix_are_solved_as_an_eigensolver_solves_them(dtype):
    """At alpha = 1 the marginals (u, v) of the random scan follow the linear step u <- (u + A
    v) / 2, v <- (v + B^T u) / 2.
    """
    tables, exact = hardly_mixing(dtype)
    a, b = (q.exp() for q in exact.log_q)
    a, b = a / a.sum(0), b / b.sum(1, keepdim=True)
    n, m = a.shape
    step = 0.5 * torch.cat([torch.cat([torch.eye(n), a], 1), torch.cat([b.T, torch.eye(m)], 1)])
    values, vectors = torch.linalg.eig(step)
    order = values.real.argsort(descending=True)
    assert 0.997 < float(values.real[order[1]]) < 0.99999

    def assert_law(law, restart):
        joint = family(tables, 1.0, restart)
        assert joint.report["converged"]
        for expected, marginal in zip(law.split([n, m]), joint.marginals(), strict=True):
            assert distance(expected / expected.sum(), marginal.double()) < 1e-4

    assert_law(vectors[:, order[0]].real, 0.0)
    masked_a, masked_b = (x.exp() for x in exact.log_masked)
    chained, restart = (
        torch.cat([(masked_a + a @ masked_b) / 2, (masked_b + b.T @ masked_a) / 2]),
        0.001,
    )
    law = torch.linalg.solve(
        torch.eye(n + m, dtype=torch.float64) - (1 - restart) * step, restart * chained
    )
    assert_law(law, restart)
    slow = start(tables)
    for _ in range(20):
        slow = swept(tables, slow, Member(1.0, restart))
    assert distance(slow[1].exp().flatten(), law[:n]) > 1e-3


def test_tables_that_newton_cannot_solve_leave_the_marginals_as_they_came():
    tables = random_tables((2, 5), 3)
    broken = replace(tables, log_q=tuple(q * torch.nan for q in tables.log_q))
    came = start(tables)
    for after, before in zip(solved(likely_of(broken, Member(0.0)), came), came, strict=True):
        torch.testing.assert_close(after, before, rtol=1e-14, atol=0)
