"""The accelerated iteration on maps whose fixed point is known: linear, slow, hostile ones, and
tokens that grow.
"""

from functools import partial
from unittest import mock

import pytest
import torch

from joints.test_enclosure import two_classes
from support.joint_cases import accelerated, tables_of, without
from unmask.joints import acceleration, solver
from unmask.joints.acceleration import Acceleration
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.fixed_point_check import GROWS
from unmask.joints.members import Members
from unmask.joints.solver import solve, solve_carefully
from unmask.joints.sweeps import sweep
from unmask.tables.unary import Tables


def linear_map(rates, seed=0):
    """z -> t + M (z - t), M symmetric with the given rates, and its fixed point t, a vector of
    log-probabilities.
    """
    generator = torch.Generator().manual_seed(seed)
    n = len(rates)
    basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    matrix = basis @ torch.diag(torch.tensor(rates, dtype=torch.float64)) @ basis.T
    truth = torch.randn(n, generator=generator, dtype=torch.float64).log_softmax(0)
    return (lambda z: truth + matrix @ (z - truth)), truth


def gap(log_p, truth):
    return 0.5 * float((log_p.exp() - truth.exp()).abs().sum())


def test_few_slow_directions_take_few_reads():
    step, truth = linear_map([0.999, 0.99, 0.95] + [0.3] * 17)
    start = torch.zeros(20, dtype=torch.float64).log_softmax(0)
    fast = accelerated(step, start, 1e-8, 500)
    slow = start
    for _ in range(500):
        slow = step(slow)
    assert fast.converged
    assert fast.error < 1e-8
    assert gap(fast.log_p, truth) < 1e-8
    assert fast.reads < 30
    assert gap(slow, truth) > 1e-3


def test_a_small_change_alone_does_not_stop_it():
    """With one rate of 0.9999 the plain change is a ten-thousandth of the error, and the
    estimate knows it.
    """
    step, truth = linear_map([0.9999] + [0.1] * 9, seed=1)
    start = truth + 0.5 * torch.randn(
        10, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    end = accelerated(step, start, 1e-4, 500)
    assert gap(end.log_p, truth) < 1e-4
    plain = start
    while 0.5 * float((step(plain).exp() - plain.exp()).abs().sum()) > 1e-4:
        plain = step(plain)
    assert gap(plain, truth) > 1e-2


def test_it_falls_back_to_plain_steps_where_extrapolation_misleads():
    """Every extrapolated point is sent far away; only the plain steps lead to the fixed point."""
    truth = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    allowed = [torch.zeros(3, dtype=torch.float64).log_softmax(0)]

    def step(z):
        if any(torch.equal(z, known) for known in allowed):
            allowed.append(truth + 0.5 * (z - truth))
            return allowed[-1]
        return z + torch.tensor([30.0, -30.0, 5.0], dtype=torch.float64)

    end = accelerated(step, allowed[0], 1e-6, 500)
    assert end.restarts > 3
    assert end.error < 1e-6
    assert gap(end.log_p, truth) < 1e-6


def test_not_a_number_is_taken_back_too():
    step, truth = linear_map([0.5, 0.2, 0.1])
    count = 0

    def sometimes(z):
        nonlocal count
        count += 1
        return torch.full_like(z, torch.nan) if count == 4 else step(z)

    end = accelerated(sometimes, torch.zeros(3, dtype=torch.float64).log_softmax(0), 1e-9, 100)
    assert end.restarts == 1
    assert gap(end.log_p, truth) < 1e-9


def test_points_that_move_by_the_same_step_are_no_nearer_to_a_fixed_point():
    """z moves and f does not change: the ratio of their lengths overflows, and no error can be
    estimated.
    """
    shift = torch.tensor([0.5, -0.5, 0.25], dtype=torch.float64)
    end = accelerated(lambda z: z + shift, torch.full((3,), -2.0, dtype=torch.float64), 1e-4, 20)
    assert end.reads == 20
    assert not end.converged
    assert end.error == float("inf")


TARGET = torch.tensor([[-1e-9, -20.0, -25.0]], dtype=torch.float64)


def ended(grows: float, start: float, rate: float = 0.2) -> tuple[torch.Tensor, float]:
    """Where an iteration of G(z) = z + rate (target - z) ends, and by how much G still raises a
    coordinate there.
    """
    runs = Acceleration(
        torch.tensor([[-1e-9, start, -25.0]], dtype=torch.float64), 1e-4, 500, grows
    )
    while runs.running:
        runs.receive(runs.z + rate * (TARGET - runs.z) + 0.01 * torch.sin(TARGET - runs.z))
    (end,) = runs.ends
    left = TARGET[0] - end.log_p
    return end.log_p, float((rate * left + 0.01 * torch.sin(left)).amax())


@pytest.mark.parametrize("start", [-60.0, -35.0, -22.0])
def test_an_iteration_ends_when_nothing_grows(start):
    log_p, growth = ended(GROWS / 2, start)
    assert growth < GROWS
    assert abs(float(log_p[1]) - float(TARGET[0, 1])) < 0.1


def test_without_the_bound_it_ends_too_early():
    """The negative control: nearly all mass stands still, and the second token has still to
    grow.
    """
    assert ended(torch.inf, -60.0)[1] > GROWS


def steps_to_what_creeps() -> int:
    """Steps where the mass is found at once, up to rounding, and three small coordinates rise
    by hundredths of what they lack.
    """
    generator, mass = (
        torch.Generator().manual_seed(0),
        torch.full((40,), 1 / 40, dtype=torch.float64).log(),
    )
    target = torch.cat([mass, torch.tensor([-20.0, -23.0, -26.0], dtype=torch.float64)])[None]
    rates = torch.cat([torch.linspace(0.5, 1, 40), torch.tensor([0.03, 0.02, 0.01])]).double()
    runs = Acceleration(
        target - torch.cat([mass * 0, torch.tensor([2.0, 2.0, 3.0])]), 1e-4, 500, GROWS / 2
    )
    while runs.running:
        rounding = 1e-7 * torch.randn(43, generator=generator, dtype=torch.float64)
        runs.receive(runs.z + rates * (target - runs.z) + rounding)
    return runs.ends[0].steps


def test_rounding_where_the_mass_is_does_not_hide_what_creeps_elsewhere(monkeypatch):
    assert steps_to_what_creeps() < 30
    monkeypatch.setattr(acceleration, "SMALL", 1e-300)
    assert steps_to_what_creeps() > 100, "control: with the weights of the probabilities alone"


def largest_growth(seed, tokens, sharpness):
    """By how much a sweep raises a marginal where `solve_carefully` says that it has converged;
    conditionals nearly rule tokens out."""
    first, second = sharpness * torch.randn(
        2, tokens, tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    tables = Tables.from_conditionals(
        first.softmax(0).numpy(), second.softmax(1).numpy(), [[1 / tokens] * tokens] * 2
    )
    members = Members.of([tables], [Member(0.0)])
    (end,) = solve_carefully(members, 1e-4, 500)
    return float((sweep(members, end.log_p[None]) - end.log_p).amax()) if end.converged else 0.0


def test_an_answer_ends_where_nothing_grows_and_the_step_after_it_may_grow_again():
    cases = [(2, 17, 40.0), (24, 17, 40.0), (50, 13, 20.0), (80, 16, 30.0), (20, 16, 30.0)]
    assert max(largest_growth(*case) for case in cases) < GROWS / 2
    after = partial(Acceleration, ends_before=False)
    with mock.patch.object(solver, "Acceleration", lambda *options, ends_before: after(*options)):
        assert max(largest_growth(*case) for case in cases) > GROWS


def test_the_common_solver_ends_where_nothing_grows_too(monkeypatch):
    """Half of the mass belongs to a class of fillings that begins with next to none: it grows, and
    is so small that the marginals hardly change.
    """
    members = Members.of([tables_of(two_classes(0.5, 1e-6))], [Member(0.0)])
    initial = tuple(marginal.log() for marginal in without(two_classes(1 - 2e-10, 1e-12)))

    def growth():
        (end,) = solve(members, 1e-4, 500, initial)
        assert end.converged
        return float((sweep(members, end.log_p[None]) - end.log_p).amax())

    assert growth() < GROWS / 2
    monkeypatch.setattr(solver, "GROWS", 4 * GROWS)
    assert growth() > GROWS, "control: four times the limit"
