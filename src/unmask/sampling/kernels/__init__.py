"""Kernels, one a file: `init` makes a state from texts, `step(state, rng, sites)` returns the next state and what it did."""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Int
from torch import Tensor

from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo
from unmask.sampling.target import Target


class Kernel(Protocol):
    """One step of a Markov chain over texts, for many chains at once."""

    @property
    def target(self) -> Target:
        """What the chain samples, where it samples anything."""
        ...

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The state of chains that start at the texts `ids`, and the passes that took."""
        ...

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> tuple[ChainState, StepInfo]:
        """Redraw the sites `sites` of each chain; which ones must not depend on the values that stand there."""
        ...


__all__ = ["ChainState", "Kernel", "StepInfo"]
