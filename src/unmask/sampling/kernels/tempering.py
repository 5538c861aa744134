"""Parallel tempering: each chain runs a ladder of replicas at rising temperatures, and neighbours may swap.

    target of a ladder   prod_r exp(-E(x_r) / T_r),   T_1 < T_2 < ... the first is the chain that is sampled
    swap of r, r + 1     accepted with min(1, exp((1/T_r - 1/T_{r+1}) (E(x_r) - E(x_{r+1}))))

Swaps cost no pass: energies are known, and it is the temperatures that change hands, not the texts. After each step, the
neighbours (1,2), (3,4), ... or (2,3), (4,5), ... try to swap, either with probability 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState, StepInfo
from unmask.sampling.kernels.metropolis import MetropolisHastings


@dataclass(frozen=True)
class ParallelTempering(MetropolisHastings):
    """Rows c R ... c R + R - 1 of the state are the R replicas of chain c, one per temperature of the `ladder`."""

    ladder: tuple[float, ...] = (1.0, 1.5, 2.25)

    def __post_init__(self) -> None:
        if len(self.ladder) < 2 or any(a >= b for a, b in pairwise(self.ladder)):
            raise InputError(f"ladder {list(self.ladder)}: give two temperatures or more, positive and rising")

    @property
    def replicas(self) -> int:
        """One row of the state per temperature of the ladder."""
        return len(self.ladder)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """Every replica of a chain starts at its text."""
        state, passes = super().init(ids.repeat_interleave(self.replicas, 0))
        state.temperature = torch.tensor(self.ladder, dtype=torch.float64, device=self.target.device).repeat(len(ids))
        return state, passes

    def sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """The rows at the first temperature, one per chain."""
        return self._ranked(state)[:, 0]

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "r 1"]) -> StepInfo:
        """A step of every replica, then swaps."""
        info = super().step(state, rng, sites)
        return info._replace(swaps=self.swap(state, rng))

    def swap(self, state: ChainState, rng: Randomness) -> Int[Tensor, "2 R"]:
        """Try one set of neighbouring swaps in every ladder; how many were tried and accepted at each rung."""
        ranked = self._ranked(state)
        counts = torch.zeros((2, self.replicas - 1), dtype=torch.long, device=ranked.device)
        odd = rng.integers(ranked[:, 0], 2)
        energy = state.energy
        for rank in range(self.replicas - 1):
            tried, low, high = odd == rank % 2, ranked[:, rank], ranked[:, rank + 1]
            cold, hot = state.temperature[low], state.temperature[high]
            swapped = tried & (rng.log_uniform(low) < (1 / cold - 1 / hot) * (energy[low] - energy[high]))
            state.temperature[low], state.temperature[high] = torch.where(swapped, hot, cold), torch.where(swapped, cold, hot)
            counts[0, rank], counts[1, rank] = tried.sum(), swapped.sum()
        return counts

    def _ranked(self, state: ChainState) -> Int[Tensor, "n R"]:
        """Rows of each ladder in rising temperature."""
        ladder = state.temperature.reshape(-1, self.replicas)
        first = torch.arange(len(ladder), device=ladder.device).unsqueeze(1) * self.replicas
        return ladder.argsort(1) + first
