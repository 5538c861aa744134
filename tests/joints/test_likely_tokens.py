"""The likely tokens solved exactly: their equations, and pairs of tokens that hardly meet any others."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_cases import distance, random_tables, seeds, without

from unmask.joints.solver import likely_tokens
from unmask.joints.solver.balance import sweep
from unmask.joints.solver.family import start
from unmask.joints.solver.fixed_point import accelerate
from unmask.joints.solver.likely_tokens import LikelyTokens, strips
from unmask.joints.solver.near_compatible import members, near_compatible
from unmask.tables.unary import Tables

alphas = st.sampled_from([0.0, 0.3, 0.5, 1.0])


@pytest.fixture(autouse=True)
def exactly(monkeypatch):
    """Every solve to the end."""
    monkeypatch.setattr(likely_tokens, "NEARER", 0.0)


def likely_of(tables, alpha):
    return LikelyTokens(tables, torch.tensor([[alpha]], dtype=torch.float64))


def solved(tables, log_mu, alpha, likely=None):
    found = (likely or likely_of(tables, alpha)).solve(torch.cat([m.flatten() for m in log_mu])[None, :])[0]
    return tuple(part.reshape(m.shape) for part, m in zip(found.split([m.numel() for m in log_mu]), log_mu, strict=True))


def imbalance(tables, log_mu, alpha):
    """Row and column sums of k (A v - B u), over what flows out of each token."""
    a, b = (t.exp() for t in tables.log_q)
    v, u = log_mu[0].exp(), log_mu[1].exp()
    k = 1 / (u ** (1 - alpha) + v ** (1 - alpha))
    return ((a * v - b * u) * k).sum(1) / (b * u * k).sum(1), ((a * v - b * u) * k).sum(0) / (a * v * k).sum(0)


@settings(max_examples=20, deadline=None)
@given(seeds, alphas)
def test_a_vocabulary_taken_whole_is_solved_at_once(seed, alpha):
    tables = random_tables((2, 5), seed)
    assert strips(tables).share == 0 and len(strips(tables).x) == 5
    for residual in imbalance(tables, solved(tables, start(tables), alpha), alpha):
        assert float(residual.abs().max()) < 1e-10


@settings(max_examples=20, deadline=None)
@given(seeds, alphas)
def test_with_some_left_out_the_likely_ones_come_into_balance_once_the_others_are(seed, alpha):
    """What is held is the flow from and to the others at the marginals given, so a fixed point stays where it is."""
    tables = random_tables((2, 5), seed)
    before, likely_tokens.LIKELY = likely_tokens.LIKELY, 1
    try:
        n, m = len(strips(tables).x), len(strips(tables).y)
        assert n < 5 and m < 5 and strips(tables).share == pytest.approx((5 * n + 5 * m - 2 * n * m) / 25)
        mu = near_compatible(tables, alpha, tolerance=1e-9).dense().exp()
        moved = solved(tables, tuple(m.log() for m in without(mu)), alpha)
        for found, expected in zip(moved, without(mu), strict=True):
            torch.testing.assert_close(found.exp(), expected, rtol=1e-7, atol=0)
        elsewhere = solved(tables, start(tables), alpha)
        assert all(float(r.abs().max()) > 1e-3 for r in imbalance(tables, elsewhere, alpha))
    finally:
        likely_tokens.LIKELY = before


@settings(max_examples=20, deadline=None)
@given(seeds, alphas, st.floats(0.01, 1.0))
def test_old_factors_lead_to_the_same_answer_as_new_ones(seed, alpha, moved):
    tables = random_tables((2, 5), seed)
    before, likely_tokens.LIKELY = likely_tokens.LIKELY, 1
    try:
        again = likely_of(tables, alpha)
        solved(tables, start(tables), alpha, again)
        assert again.factors is not None
        other = tuple(m + moved * torch.sin(torch.arange(5, dtype=m.dtype)).reshape(m.shape) for m in start(tables))
        found, expected = solved(tables, other, alpha, again), solved(tables, other, alpha)
        for mine, fresh in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, fresh, rtol=0, atol=1e-4)
        assert max(float((mine - came).abs().max()) for mine, came in zip(found, other, strict=True)) > 1e-3
    finally:
        likely_tokens.LIKELY = before


def two_worlds(vocab: int = 60, bond: float = 9.0) -> Tables:
    """Token 7 of either blank nearly determines the other, and the rest almost never lead there."""
    generator = torch.Generator().manual_seed(1)
    logits = [torch.randn((vocab, vocab), generator=generator, dtype=torch.float64) for _ in range(2)]
    for table in logits:
        table[7, :] -= bond
        table[:, 7] -= bond
        table[7, 7] += 3 * bond
    masked = tuple(
        torch.zeros(vocab, dtype=torch.float64).index_fill_(0, torch.tensor([7]), -4.0).log_softmax(0) for _ in range(2)
    )
    zero = torch.zeros((1, 1), dtype=torch.float64)
    tokens = (torch.arange(vocab),) * 2
    return Tables(tokens, (logits[0].log_softmax(0), logits[1].log_softmax(1)), (zero, zero), (zero, zero), masked, (0.0, 0.0))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_tokens_that_hardly_meet_others_converge_and_without_help_do_not(alpha, monkeypatch):
    tables = two_worlds()
    monkeypatch.setattr(likely_tokens, "LIKELY", 4)
    found = near_compatible(tables, alpha)
    elsewhere = near_compatible(tables, alpha, initial=start(tables, uniform=True))
    monkeypatch.setattr(likely_tokens, "LIKELY", 60)
    truth = near_compatible(two_worlds(), alpha, tolerance=1e-9)
    assert found.report["converged"] and found.report["steps"] < 25
    assert distance(found.dense().exp(), truth.dense().exp()) < 1e-4
    assert distance(elsewhere.dense().exp(), truth.dense().exp()) < 1e-4
    log_mu = start(tables)
    for _ in range(25):
        log_mu = sweep(tables, log_mu, alpha)
    assert distance(log_mu[1].exp(), without(truth.dense().exp())[1]) > 1e-3


def test_a_table_with_zeros_that_newton_cannot_solve_is_left_as_it_came():
    tables = random_tables((2, 5), 3)
    likely = likely_of(tables, 0.0)
    likely.strips = replace(likely.strips, ab=likely.strips.ab * torch.nan)
    came = start(tables)
    for found, expected in zip(solved(tables, came, 0.0, likely), came, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_accelerate_still_stands_alone():
    """Control: on a random pair sweeps alone, accelerated, find the same fixed point."""
    tables = random_tables((2, 5), 12)
    sizes = [m.numel() for m in start(tables)]

    def step(flat):
        v, u = flat.split(sizes)
        return torch.cat([m.flatten() for m in sweep(tables, (v[None, :], u[:, None]), 0.5)])

    end = accelerate(step, torch.cat([m.flatten() for m in start(tables)]), 1e-9, 100)
    assert end.converged
    expected = without(near_compatible(tables, 0.5, tolerance=1e-9).dense().exp())
    for found, truth in zip(end.log_p.split(sizes), expected, strict=True):
        assert distance(found.exp(), truth.flatten()) < 1e-8


def test_members_side_by_side_are_the_members_alone():
    tables = random_tables((2, 40), 5)
    alphas = {"a": 0.0, "b": 0.25, "c": 1.0}
    for joint, alpha in zip(members(tables, alphas, tolerance=1e-9), alphas.values(), strict=True):
        alone = near_compatible(tables, alpha, tolerance=1e-9)
        assert joint.report["converged"] and joint.report["alpha"] == alpha
        assert distance(joint.dense().exp(), alone.dense().exp()) < 1e-8
        assert distance(joint.dense().exp(), near_compatible(tables, 0.5, tolerance=1e-9).dense().exp()) > 1e-4
