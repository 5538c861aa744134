"""Simulated annealing: optimisation, not sampling.

    step s of S runs its kernel at temperature T_s = hot (cold / hot)^(s / (S - 1))

The law of the chain changes all the time, so its texts are samples of nothing; it looks for texts of low energy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.kernels import Kernel
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo
from unmask.sampling.target import Target


@dataclass(frozen=True)
class Annealing:
    """`inner` over `total_steps` steps from temperature `hot` down to `cold`, and at `cold` from then on."""

    inner: Kernel
    total_steps: int
    hot: float = 2.0
    cold: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.cold <= self.hot:
            raise InputError(f"annealing from {self.hot} to {self.cold}: give positive temperatures, the first the higher one")
        if self.total_steps < 1:
            raise InputError(f"annealing over {self.total_steps} steps: give at least one")

    @property
    def target(self) -> Target:
        """Of the inner kernel."""
        return self.inner.target

    def temperature(self, step: int) -> float:
        """Of step `step`, counted from 0."""
        share = min(1.0, step / max(1, self.total_steps - 1))
        return float(self.hot * (self.cold / self.hot) ** share)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """As the inner kernel."""
        return self.inner.init(ids)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> tuple[ChainState, StepInfo]:
        """A step of the inner kernel at this step's temperature."""
        now = torch.full_like(state.temperature, self.temperature(state.steps))
        return self.inner.step(state._replace(temperature=now), rng, sites)
