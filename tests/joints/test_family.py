"""The near-compatible family against enumeration: its equations, its two ends, its published
iteration.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import family
from support.joint_cases import (
    LARGE,
    SIZES,
    distance,
    large_tables,
    random_scan_step,
    random_tables,
    seeds,
    sizes,
    without,
)
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.deriving import derive
from unmask.joints.family_rule import plain_step
from unmask.joints.members import Members, flat, start
from unmask.joints.sweeps import sweep_pair, sweep_sites
from unmask.tables.unary import Tables

alphas = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
EXACT = 1e-9


def stationary_point(q, mu, alpha):
    """(sum_t w_t q_t) / (sum_t w_t / mu_{-t}) with w_t = mu_{-t}^alpha, written out."""
    m = without(mu)
    return sum(w**alpha * t for w, t in zip(m, q, strict=True)) / sum(w ** (alpha - 1) for w in m)


def objective(q, mu):
    """Eq. 4: the divergences from every conditional of every site, summed."""
    m = without(mu)
    return sum(float((t * (t.log() - mu.log() + w.log())).sum()) for t, w in zip(q, m, strict=True))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([s for s in SIZES if s[0] == 2]), seeds, st.sampled_from([0.0, 0.5, 1.0]))
def test_fifty_steps_are_equation_5_from_uniform(size, seed, alpha):
    tables = random_tables(size, seed)
    a, b = (t.exp() for t in tables.log_q)
    mu = torch.full_like(a, 1 / a.numel())
    for _ in range(50):
        u, v = mu.sum(1, keepdim=True), mu.sum(0, keepdim=True)
        mu = (
            (a + b) / (1 / u + 1 / v)
            if alpha == 0
            else (v**alpha * a + u**alpha * b) / (u ** (alpha - 1) + v ** (alpha - 1))
        )
        mu = mu / mu.sum()
        last = distance(u, mu.sum(1, keepdim=True))
    joint = family(tables, alpha, steps=50)
    torch.testing.assert_close(joint.dense().exp(), mu, rtol=1e-12, atol=1e-15)
    assert joint.report["steps"] == joint.report["reads"] == 50
    assert joint.report["change"] >= last - 1e-12
    off_by_one = family(tables, alpha, steps=2).dense().exp()
    assert distance(off_by_one, family(tables, alpha, steps=3).dense().exp()) > 1e-9


@settings(max_examples=15, deadline=None)
@given(sizes, seeds)
def test_pseudo_gibbs_is_the_stationary_vector_of_the_random_scan_chain(size, seed):
    tables = random_tables(size, seed)
    values, vectors = torch.linalg.eig(random_scan_step(tables).T)
    first = vectors[:, values.real.argmax()].real
    stationary = (first / first.sum()).reshape(tables.shape)
    assert (
        distance(stationary, derive(tables, "pseudo_gibbs", tolerance=EXACT).dense().exp()) < 1e-8
    )
    assert (
        distance(stationary, derive(tables, "arnold_gokhale", tolerance=EXACT).dense().exp()) > 1e-6
    )


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(2, 2), (2, 5)]), seeds, alphas, st.sampled_from([0.0, 0.1, 1.0]))
def test_the_sweep_of_a_pair_is_that_of_any_number_of_sites(size, seed, alpha, restart):
    """Up to the marginal that is renewed first: u is for a pair, and u is the one of the last
    site.
    """
    tables = random_tables(size, seed)
    members = Members.of([tables], [Member(alpha, restart)])
    sites, _ = members.sites_at(flat(start(tables))[None, :], torch.float64)
    torch.testing.assert_close(
        sweep_pair(members, *sites)[0], sweep_sites(tables, sites), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_tables_of_several_tiles_solve_the_same_equation(shape, alpha):
    tables = large_tables(shape, 8)
    q = [t.exp() for t in tables.log_q]
    joint = family(tables, alpha, tolerance=EXACT)
    mu = joint.dense().exp()
    assert distance(mu, stationary_point(q, mu, alpha)) < 1e-8
    assert joint.report["objective"] == pytest.approx(objective(q, mu), rel=1e-10)
    step = plain_step(tables, start(tables), Member(alpha))
    product = sum(
        m.reshape([-1 if s == t else 1 for s in range(len(shape))])
        for t, m in enumerate(tables.log_masked)
    ).exp()
    expected = stationary_point(q, product, alpha)
    for log_mass, wanted in zip(step, without(expected / expected.sum()), strict=True):
        torch.testing.assert_close(log_mass.exp(), wanted)


def sharp_tables(vocab: int, seed: int, depth: float, bond: float = 5.0) -> Tables:
    """A pair in float32 as a trained model gives it, log-probabilities down to about -`depth`.

    Tokens of one class of five (a name's halves, say) favour each other by `bond`, which makes
    eq. 5 slow.
    """
    generator = torch.Generator().manual_seed(seed)
    rank, kind = torch.linspace(0, 1, vocab), torch.arange(vocab) % 5
    shared = -depth * (rank[:, None] + rank[None, :]) / 2 + bond * (kind[:, None] == kind[None, :])
    a, b = (shared + torch.randn((vocab, vocab), generator=generator) for _ in range(2))
    masked = tuple((-depth * rank / 2).log_softmax(0) for _ in range(2))
    zero = torch.zeros(1, 1)
    return Tables(
        (torch.arange(vocab),) * 2,
        (a.log_softmax(0), b.log_softmax(1)),
        (zero, zero),
        (zero, zero),
        masked,
        (0.0, 0.0),
    )


def in_float64(tables: Tables) -> Tables:
    log_q = tuple(t.double().log_softmax(s) for s, t in enumerate(tables.log_q))
    return Tables(
        tables.candidates,
        log_q,
        tables.log_inside,
        tables.log_total,
        tables.log_masked,
        tables.log_masked_inside,
    )


@pytest.mark.parametrize(
    "member", [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 0.5), (0.5, 0.1), (1.0, 0.05)]
)
@pytest.mark.parametrize("depth", [20.0, 120.0])
def test_float32_tables_keep_the_accuracy_that_is_stated(member, depth):
    tables = sharp_tables(60, 5, depth)
    joint = family(tables, *member)
    truth = family(in_float64(tables), *member, tolerance=EXACT)
    assert joint.report["converged"]
    assert truth.report["converged"]
    assert distance(joint.dense().double().exp(), truth.dense().exp()) < 1e-4
    likely = truth.dense() > -10
    assert float((joint.dense().double() - truth.dense())[likely].abs().max()) < 2e-3
    assert bool(torch.isfinite(joint.dense()).all())
    assert joint.report["objective_mean"] == pytest.approx(
        truth.report["objective_mean"], rel=1e-4, abs=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(
    seeds,
    st.sampled_from([(0.0, 0.0), (0.3, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, 0.05), (1.0, 0.01)]),
    st.booleans(),
    st.sampled_from([1e-3, 1e-4]),
)
def test_the_stated_error_holds_from_both_starts(seed, member, uniform, tolerance):
    """The estimate that the iteration stops on is not below the true distance to the fixed
    point.
    """
    tables = in_float64(sharp_tables(40, seed, 25.0))
    truth = without(family(tables, *member, tolerance=EXACT).dense().exp())
    joint = family(tables, *member, tolerance=tolerance, initial=start(tables, uniform=uniform))
    assert joint.report["converged"]
    for expected, mass in zip(truth, without(joint.dense().exp()), strict=True):
        assert distance(expected, mass) < tolerance


def test_acceleration_pays_on_hard_tables():
    """The same accuracy from eq. 5 takes at least ten times the reads."""
    tables = in_float64(sharp_tables(60, 3, 25.0))
    truth = family(tables, 0.0, tolerance=EXACT).dense().exp()
    joint = derive(tables, "arnold_gokhale")
    reads, accuracy = round(joint.report["reads"]), distance(joint.dense().exp(), truth)
    assert accuracy < 1e-4
    published = derive(tables, "arnold_gokhale", steps=10 * reads)
    assert distance(published.dense().exp(), truth) > accuracy
    assert published.report["objective"] > joint.report["objective"]


def test_the_report_says_what_was_done():
    tables = random_tables((2, 5), 1)
    report = derive(tables, "balanced").report
    assert set(report) == {
        "alpha",
        "restart",
        "steps",
        "reads",
        "change",
        "error",
        "moved",
        "growth",
        "converged",
        "objective",
        "objective_mean",
        "log_z",
    }
    assert report["converged"]
    assert report["change"] <= report["error"] < 1e-4
    assert report["reads"] == report["steps"] + 3
    stopped = family(tables, 0.5, tolerance=1e-12, max_reads=3).report
    assert not stopped["converged"]
    assert stopped["steps"] == 3
    assert stopped["error"] > 1e-12
    assert derive(tables, "arnold_gokhale", steps=4).report["converged"] is False
