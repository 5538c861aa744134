"""The acceptance, and that its two layers decide as it does, one decision at a time."""

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.enumeration import all_texts, energies
from support.sampling_cases import of, small_target
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.metropolis import Acceptance, log_acceptance
from unmask.sampling.kernels.mh import MH

numbers = st.floats(-30, 30)


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


@given(numbers, numbers, st.floats(0.1, 10), numbers)
def test_the_equation(energy, new_energy, temperature, log_ratio):
    alpha = min(1.0, exp(min(0.0, (energy - new_energy) / temperature + log_ratio)))
    log_alpha = log_acceptance(
        vector(energy), vector(new_energy), vector(temperature), vector(log_ratio)
    )
    assert float(log_alpha) == pytest.approx(log(alpha), abs=1e-9)
    assert float(log_alpha) <= 0


@given(numbers, numbers, st.floats(0.1, 10), numbers)
def test_there_and_back_balance(energy, new_energy, temperature, log_ratio):
    """log pi(x) g(x'|x) alpha(x -> x') is the same with x and x' exchanged: detailed balance,
    for every g.
    """
    there = log_acceptance(
        vector(energy), vector(new_energy), vector(temperature), vector(log_ratio)
    )
    back = log_acceptance(
        vector(new_energy), vector(energy), vector(temperature), vector(-log_ratio)
    )
    flow, returned = (
        -energy / temperature - log_ratio + float(there),
        -new_energy / temperature + float(back),
    )
    assert flow == pytest.approx(returned, abs=1e-8)


def test_impossible_texts_are_rejected():
    infinite = vector(torch.inf)
    assert float(log_acceptance(vector(1.0), infinite, vector(1.0))) == -torch.inf
    assert not bool(vector(-0.1) < log_acceptance(infinite, infinite, vector(1.0))), (
        "from one forbidden text to another"
    )


class Given(Randomness):
    """Uniforms as they were drawn."""

    def __init__(self, log_u):
        self.log_u, self.asked = log_u, 0

    def log_uniform(self, rows):
        self.asked += 1
        return self.log_u[self.asked - 1][rows]


def proposals(kind, seed, count=400):
    """Random proposals that change one to three sites of random texts, with random ratios and
    uniforms.
    """
    target = small_target(vocab=3, length=5, seed=seed, kind=kind)
    generator = torch.Generator().manual_seed(seed)
    texts = all_texts(target)
    old = texts[torch.randint(len(texts), (count,), generator=generator)]
    sites = torch.stack([torch.randperm(5, generator=generator)[:3] for _ in range(count)])
    tokens = torch.randint(3, (count, 3), generator=generator)
    new = old.scatter(1, sites, tokens)
    log_ratio = 2 * torch.randn(count, generator=generator, dtype=torch.float64)
    log_u = torch.rand((3, count), generator=generator, dtype=torch.float64).log()
    return target, old, new, sites, log_ratio, log_u


def decided(acceptance, target, old, new, sites, log_ratio, log_u):
    state, _ = of(MH, target).init(old)
    proposed = of(MH, target).init(new)[0]
    proposed.fresh[:] = False
    proposed.terms[:] = torch.nan
    return acceptance.decide(state, state.rows, proposed, log_ratio, sites, Given(log_u))


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.5, 2.0]))
def test_early_rejection_decides_as_the_equation_does(seed, temperature):
    case = proposals("norm", seed)
    target, old, new, _, log_ratio, log_u = case
    wanted = log_u[0] < log_acceptance(
        energies(target.model, old), energies(target.model, new), temperature, log_ratio
    )
    passes = Passes(target.model)
    early = decided(Acceptance(target, passes, temperature), *case)
    plain = decided(Acceptance(target, Passes(target.model), temperature, early=False), *case)
    assert torch.equal(early.accepted, wanted)
    assert torch.equal(plain.accepted, wanted)
    assert 20 < int(wanted.sum()) < 380
    assert int(early.passes.sum()) == passes.count < int(plain.passes.sum()) == 5 * 400


def test_a_proposal_that_cannot_be_undone_costs_nothing():
    case = list(proposals("norm", 3))
    case[4] = torch.full_like(case[4], -torch.inf)
    decision = decided(Acceptance(case[0], Passes(case[0].model)), *case)
    assert not bool(decision.accepted.any())
    assert int(decision.passes.sum()) == 0
