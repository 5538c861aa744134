"""Simulated annealing: optimisation, not sampling.

    step s of S runs Metropolis-Hastings at temperature T_s = hot (cold / hot)^(s / (S - 1))

The law of the chain changes all the time, so its texts are samples of nothing; it looks for texts of low energy.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState, StepInfo
from unmask.sampling.kernels.metropolis import MetropolisHastings


@dataclass(frozen=True)
class Annealing(MetropolisHastings):
    """From temperature `hot` down to `cold` over `sweeps` sweeps of all sites, and at `cold` from then on."""

    sweeps: int = 100
    hot: float = 2.0
    cold: float = 0.1

    def __post_init__(self) -> None:
        if self.cold > self.hot:
            raise InputError(f"annealing from {self.hot} to {self.cold}: give positive temperatures, the first the higher one")

    def temperature(self, step: int) -> float:
        """Of step `step`, counted from 0."""
        share = min(1.0, step / max(1, self.sweeps * self.target.sites - 1))
        return float(self.hot * (self.cold / self.hot) ** share)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> StepInfo:
        """A step of Metropolis-Hastings at this step's temperature."""
        state.temperature.fill_(self.temperature(state.steps))
        return super().step(state, rng, sites)
