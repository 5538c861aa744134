"""The near-compatible family with restarts: its corners, its objective, its fixed point, and
its law at alpha = 1.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import NAMES, chain, family
from support.joint_cases import (
    distance,
    random_scan_step,
    random_tables,
    seeds,
    settled,
    sizes,
    tables_of,
    without,
)
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.deriving import derive
from unmask.joints.family_rule import FamilyRule
from unmask.joints.joint import Joint
from unmask.joints.members import start

EXACT = 1e-10
members = st.tuples(
    st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.02, 0.25, 0.8, 1.0])
)
restarting = st.tuples(
    st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.05, 0.25, 0.8])
)


def dense(joint):
    return joint.dense().exp()


def stationary_point(tables, mu, alpha, restart):
    """((1 - l) sum_t w_t q_t + l k c) / ((1 - l) sum_t w_t / mu_{-t} + l k), w_t =
    mu_{-t}^alpha, written out.
    """
    m, k = without(mu), tables.sites
    above = sum(w**alpha * q.exp() for w, q in zip(m, tables.log_q, strict=True))
    below = sum(w ** (alpha - 1) for w in m)
    return ((1 - restart) * above + restart * k * dense(chain(tables))) / (
        (1 - restart) * below + restart * k
    )


def objective(tables, mu, weights, restart):
    """(1 - l) sum_t sum w_t KL(q_t || mu(. | x_{-t})) + l k KL(c || mu), for weights held fixed."""
    c = dense(chain(tables))
    kept = sum(
        float((w * q.exp() * (q - mu.log() + m.log())).sum())
        for w, q, m in zip(weights, tables.log_q, without(mu), strict=True)
    )
    return (1 - restart) * kept + restart * tables.sites * float((c * (c.log() - mu.log())).sum())


@settings(max_examples=40)
@given(sizes, seeds, members)
def test_the_answer_solves_its_equation_and_has_mass_one(size, seed, member):
    tables = random_tables(size, seed)
    joint = family(tables, *member, tolerance=EXACT)
    mu = dense(joint)
    assert joint.report["converged"]
    assert joint.log_z == pytest.approx(0, abs=1e-9)
    expected = stationary_point(tables, mu, *member)
    assert float(expected.sum()) == pytest.approx(1, abs=1e-9)
    assert distance(mu, expected) < 1e-9
    other = (member[0], member[1] + 0.1 if member[1] < 0.9 else 0.5)
    assert distance(mu, stationary_point(tables, mu, *other)) > 1e-9


@settings(max_examples=10)
@given(sizes, seeds, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_the_corners_are_the_family_and_the_chain(size, seed, alpha):
    tables = random_tables(size, seed)
    assert distance(dense(family(tables, alpha, 1.0)), dense(chain(tables))) < 1e-12
    assert distance(dense(derive(tables, "restarted")), dense(family(tables, 0.75, 0.1))) < 1e-12
    named = {0.0: "arnold_gokhale", 0.5: "balanced", 1.0: "pseudo_gibbs"}.get(alpha)
    if named:
        apart = distance(dense(family(tables, alpha, 0.0)), dense(derive(tables, named)))
        assert apart < 1e-12
    low, middle = (
        family(tables, alpha, 0.0, tolerance=EXACT),
        family(tables, alpha, 0.5, tolerance=EXACT),
    )
    assert distance(dense(low), dense(middle)) > 1e-6
    assert distance(dense(middle), dense(chain(tables))) > 1e-6


def test_other_marginals_do_not_return_it():
    """Control: the chain, and so every member that restarts, trusts the masked distributions."""
    p = (
        torch.randn((5, 5), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        .flatten()
        .softmax(0)
        .reshape(5, 5)
    )
    wrong = tables_of(p)
    wrong = type(wrong)(**{**vars(wrong), "log_masked": tuple(m.flip(0) for m in wrong.log_masked)})
    assert distance(dense(family(wrong, 0.5, 0.0, tolerance=EXACT)), p) < 1e-8
    assert distance(dense(family(wrong, 0.5, 0.25, tolerance=EXACT)), p) > 1e-3


@settings(max_examples=6)
@given(sizes, seeds, restarting)
def test_nothing_has_a_lower_objective(size, seed, member):
    alpha, restart = member
    tables = random_tables(size, seed)
    joint = family(tables, alpha, restart, tolerance=EXACT)
    mu = dense(joint)
    weights = [m**alpha for m in without(mu)]
    best = objective(tables, mu, weights, restart)
    generator = torch.Generator().manual_seed(seed)
    for number in range(250):
        bump = 10 ** (-4 + 4 * number / 250) * torch.randn(
            mu.shape, generator=generator, dtype=torch.float64
        )
        moved = (joint.dense() + bump).flatten().softmax(0).reshape(mu.shape)
        assert objective(tables, moved, weights, restart) > best
    for name in NAMES:
        other = dense(derive(tables, name))
        assert objective(tables, other, weights, restart) > best - 1e-10, name


@settings(max_examples=15)
@given(sizes, seeds, st.sampled_from([0.01, 0.2, 0.7]))
def test_alpha_one_is_the_law_of_pseudo_gibbs_that_restarts_from_the_chain(size, seed, restart):
    """mu = restart c + (1 - restart) mu P, P the random-scan step: a linear system."""
    tables = random_tables(size, seed)
    step = random_scan_step(tables)
    start_law = dense(chain(tables)).flatten()
    law = torch.linalg.solve(
        torch.eye(len(step), dtype=torch.float64) - (1 - restart) * step.T, restart * start_law
    )
    fixed_point = dense(family(tables, 1.0, restart, tolerance=EXACT)).flatten()
    assert distance(fixed_point, law) < 1e-9
    series, term = torch.zeros_like(law), restart * start_law
    for _ in range(40):
        series, term = series + term, (1 - restart) * (term @ step)
    assert distance(series, law) <= 0.5 * (1 - restart) ** 40 + 1e-12
    assert distance(dense(family(tables, 0.8, restart, tolerance=EXACT)).flatten(), law) > 1e-7


@settings(max_examples=6)
@given(sizes, seeds, restarting, st.booleans())
def test_plain_steps_from_any_start_lead_to_the_same_place(size, seed, member, uniform):
    tables = random_tables(size, seed)
    log_mu = settled(tables, start(tables, uniform), Member(*member))
    plain = Joint("plain", tables, FamilyRule.at(tables, log_mu, Member(*member)))
    joint = family(tables, *member, tolerance=EXACT, initial=start(tables, not uniform))
    assert distance(dense(plain), dense(joint)) < 1e-7
