"""The likely tokens solved exactly: their equations, and pairs of tokens that hardly meet any others."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_cases import distance, random_tables, seeds, tables_from, without

from unmask.joints.arnold_gokhale import family, members
from unmask.joints.solver.anderson import accelerate
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.marginals import flat, start, unflat

alphas = st.sampled_from([0.0, 0.3, 0.5, 1.0])
LARGE = (450, 420)
"""More tokens than are taken whole."""


def likely_of(tables, alpha):
    return LikelyTokens(tables, torch.tensor([[alpha]], dtype=torch.float64))


def solved(likely, log_mu, times=1):
    """The marginals after so many solves and no sweep."""
    for _ in range(times):
        log_mu = unflat(likely.solve(flat(log_mu)[None, :])[0], log_mu)
    return log_mu


def imbalance(tables, log_mu, alpha):
    """Row and column sums of k (A v - B u), over what flows out of each token."""
    a, b = (t.exp() for t in tables.log_q)
    v, u = log_mu[0].exp(), log_mu[1].exp()
    k = 1 / (u ** (1 - alpha) + v ** (1 - alpha))
    return ((a * v - b * u) * k).sum(1) / (b * u * k).sum(1), ((a * v - b * u) * k).sum(0) / (a * v * k).sum(0)


@settings(max_examples=20)
@given(seeds, alphas)
def test_a_small_vocabulary_is_solved_whole_without_a_sweep(seed, alpha):
    tables = random_tables((2, 5), seed)
    for residual in imbalance(tables, solved(likely_of(tables, alpha), start(tables), times=8), alpha):
        assert float(residual.abs().max()) < 1e-10


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_with_some_left_out_the_likely_ones_come_into_balance_once_the_others_are(alpha):
    """What is held is the flow from and to the others at the marginals given, so a fixed point stays where it is."""
    tables = tables_of_large(3)
    mu = family(tables, alpha, tolerance=1e-10).dense().exp()
    for found, expected in zip(solved(likely_of(tables, alpha), tuple(m.log() for m in without(mu))), without(mu), strict=True):
        torch.testing.assert_close(found.exp(), expected, rtol=1e-7, atol=0)
    for residual in imbalance(tables, solved(likely_of(tables, alpha), start(tables), times=12), alpha):
        balanced = residual.abs() < 1e-4
        assert balanced.sum() >= 128 and not balanced.all()


@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("moved", [0.03, 1.0])
def test_old_factors_lead_to_the_same_answer_as_new_ones(alpha, moved):
    tables = tables_of_large(4)
    again = likely_of(tables, alpha)
    solved(again, start(tables))
    other = tuple(m + moved * torch.sin(torch.arange(m.numel(), dtype=m.dtype)).reshape(m.shape) for m in start(tables))
    found, expected = solved(again, other, times=12), solved(likely_of(tables, alpha), other, times=12)
    for mine, fresh in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, fresh, rtol=0, atol=1e-5)
    assert max(float((mine - came).abs().max()) for mine, came in zip(found, other, strict=True)) > 1e-3


def tables_of_large(seed, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    logits = [scale * torch.randn(LARGE, generator=generator, dtype=torch.float64) for _ in range(2)]
    masked = [scale * torch.randn(size, generator=generator, dtype=torch.float64) for size in LARGE]
    return tables_from([x.log_softmax(t) for t, x in enumerate(logits)], [x.log_softmax(0) for x in masked])


def two_worlds(bond: float = 9.0):
    """A joint in which token 7 of either blank nearly determines the other, its tables, and a start that is wrong about 7."""
    logits = torch.randn(LARGE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits[7, :] -= bond
    logits[:, 7] -= bond
    logits[7, 7] = logits.flatten().logsumexp(0) - 1
    p = logits.flatten().softmax(0).reshape(LARGE)
    wrong = [torch.zeros(size, dtype=torch.float64).index_fill_(0, torch.tensor([7]), -4.0).log_softmax(0) for size in LARGE]
    return p, tables_from([(p / p.sum(t, keepdim=True)).log() for t in range(2)], wrong)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_tokens_that_hardly_meet_others_converge_and_without_help_do_not(alpha):
    p, tables = two_worlds()
    assert 0.2 < float(p[7, 7]) < 0.3
    for initial in (start(tables), start(tables, uniform=True)):
        found = family(tables, alpha, initial=initial)
        assert found.report["converged"] and found.report["steps"] < 25
        assert distance(found.dense().exp(), p) < 1e-4
    log_mu = start(tables)
    for _ in range(25):
        log_mu = sweep(tables, log_mu, alpha)
    assert distance(log_mu[1].exp(), without(p)[1]) > 1e-3


def test_tables_that_newton_cannot_solve_leave_the_marginals_as_they_came():
    tables = random_tables((2, 5), 3)
    broken = replace(tables, log_q=tuple(q * torch.nan for q in tables.log_q))
    came = start(tables)
    for found, expected in zip(solved(likely_of(broken, 0.0), came), came, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_sweeps_alone_find_the_same_fixed_point_on_easy_tables():
    tables = random_tables((2, 5), 12)
    given_start = start(tables)
    end = accelerate(lambda z: flat(sweep(tables, unflat(z, given_start), 0.5)), flat(given_start), 1e-9, 100)
    assert end.converged
    expected = without(family(tables, 0.5, tolerance=1e-9).dense().exp())
    for found, truth in zip(unflat(end.log_p, given_start), expected, strict=True):
        assert distance(found.exp(), truth) < 1e-8


def test_members_side_by_side_are_the_members_alone():
    tables = random_tables((2, 40), 5)
    alphas = {"a": 0.0, "b": 0.25, "c": 1.0}
    for joint, alpha in zip(members(tables, alphas, tolerance=1e-9), alphas.values(), strict=True):
        alone = family(tables, alpha, tolerance=1e-9)
        assert joint.report["converged"] and joint.report["alpha"] == alpha
        assert distance(joint.dense().exp(), alone.dense().exp()) < 1e-8
        assert distance(joint.dense().exp(), family(tables, 0.5, tolerance=1e-9).dense().exp()) > 1e-4
