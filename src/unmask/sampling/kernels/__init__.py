"""Markov kernels, one per file: `init` makes a state from texts, `step` redraws some sites of it and says what it did."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo
from unmask.sampling.target import Target


@runtime_checkable
class Kernel(Protocol):
    """One step of a Markov chain over texts, for many chains at once."""

    @property
    def target(self) -> Target:
        """What the chain samples, where it samples anything."""
        ...

    @property
    def replicas(self) -> int:
        """Rows of the state per chain: 1, but for kernels that run each chain at several temperatures."""
        ...

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """The state of chains that start at the texts `ids`, and the passes that it took, for each row."""
        ...

    def sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """The rows that are samples, one per chain; the others are replicas."""
        ...

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "r k"]) -> StepInfo:
        """Redraw the sites `sites` of each row in place; which sites must not depend on the values that stand there."""
        ...


__all__ = ["ChainState", "Kernel", "StepInfo"]
