"""The solver goes on while a token with next to no mass still grows: total variation does not see it."""

import pytest
import torch

from unmask.joints.solver import GROWS, Acceleration

TARGET = torch.tensor([[-1e-9, -20.0, -25.0]], dtype=torch.float64)


def ended(grows: float, start: float, rate: float = 0.2) -> tuple[torch.Tensor, float]:
    """Where an iteration of G(z) = z + rate (target - z) ends, and by how much G still raises a coordinate there."""
    runs = Acceleration(torch.tensor([[-1e-9, start, -25.0]], dtype=torch.float64), 1e-4, 500, grows)
    while runs.running:
        runs.receive(runs.z + rate * (TARGET - runs.z) + 0.01 * torch.sin(TARGET - runs.z))
    (end,) = runs.ends
    left = TARGET[0] - end.log_p
    return end.log_p, float((rate * left + 0.01 * torch.sin(left)).amax())


@pytest.mark.parametrize("start", [-60.0, -35.0, -22.0])
def test_an_iteration_ends_when_nothing_grows(start):
    log_p, growth = ended(GROWS / 2, start)
    assert growth < GROWS and abs(float(log_p[1]) - float(TARGET[0, 1])) < 0.1


def test_without_the_bound_it_ends_too_early():
    """The negative control: nearly all mass stands still, and the second token has still to grow."""
    assert ended(torch.inf, -60.0)[1] > GROWS
