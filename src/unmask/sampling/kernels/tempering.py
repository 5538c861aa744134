"""Parallel tempering: each chain runs a ladder of replicas at rising temperatures, and neighbours may swap.

    target of a ladder   prod_r exp(-E(x_r) / T_r),   T_1 < T_2 < ... the first is the chain that is sampled
    swap of r, r + 1     accepted with min(1, exp((1/T_r - 1/T_{r+1}) (E(x_r) - E(x_{r+1}))))

Swaps cost no pass: energies are known, and it is the temperatures that change hands, not the texts. After each step, the
neighbours (1,2), (3,4), ... or (2,3), (4,5), ... try to swap, either with probability 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo
from unmask.sampling.target import Target


@dataclass(frozen=True)
class ParallelTempering:
    """Rows c R ... c R + R - 1 of the state are the R replicas of chain c."""

    inner: MetropolisHastings
    temperatures: tuple[float, ...] = (1.0, 1.5, 2.25)

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.temperatures, self.temperatures[1:], strict=False))
        if len(self.temperatures) < 2 or not rising or self.temperatures[0] <= 0:
            raise InputError(f"temperatures {list(self.temperatures)}: give two or more, positive and rising")

    @property
    def target(self) -> Target:
        """Of the inner kernel."""
        return self.inner.target

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """Every replica of a chain starts at its text."""
        state, passes = self.inner.init(ids.repeat_interleave(len(self.temperatures), 0))
        ladder = torch.tensor(self.temperatures, dtype=torch.float64).repeat(len(ids))
        return state._replace(temperature=ladder), passes

    def sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """The rows at the first temperature, one a chain."""
        return self._ranked(state)[:, 0]

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> tuple[ChainState, StepInfo]:
        """A step of every replica, then swaps."""
        state, info = self.inner.step(state, rng, sites)
        return state, info._replace(swaps=self.swap(state, rng))

    def swap(self, state: ChainState, rng: Randomness) -> Int[Tensor, "2 R"]:
        """Try one set of neighbouring swaps in every ladder; how many were tried and accepted at each rung."""
        ranked = self._ranked(state)
        counts = torch.zeros((2, len(self.temperatures) - 1), dtype=torch.long)
        odd = rng.integers(ranked[:, 0], 2)
        energy = state.energy
        for rank in range(len(self.temperatures) - 1):
            ladders = (odd == rank % 2).nonzero().squeeze(1)
            low, high = ranked[ladders, rank], ranked[ladders, rank + 1]
            log_ratio = (1 / state.temperature[low] - 1 / state.temperature[high]) * (energy[low] - energy[high])
            swapped = rng.log_uniform(low) < log_ratio
            low, high = low[swapped], high[swapped]
            state.temperature[low], state.temperature[high] = state.temperature[high].clone(), state.temperature[low].clone()
            counts[:, rank] = torch.tensor([len(ladders), int(swapped.sum())])
        return counts

    def _ranked(self, state: ChainState) -> Int[Tensor, "n R"]:
        """Rows of each ladder in rising temperature."""
        ladder = state.temperature.reshape(-1, len(self.temperatures))
        first = torch.arange(len(ladder)).unsqueeze(1) * len(self.temperatures)
        return ladder.argsort(1) + first
