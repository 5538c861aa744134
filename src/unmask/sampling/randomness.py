"""Random choices as an argument: one counter-based stream for each chain, sweep and step.

Philox is a keyed bijection of a counter: key (seed, chain), counter (step, sweep). A chain's choices therefore depend on
the seed, its own number and where it is, and not on which other chains run beside it, how they are batched, or whether
the run was interrupted. A token is drawn by Gumbel's maximum, argmax_v log w_v - log(-log u_v), in float64: unlike an
inverse CDF, rounding of the weights by 1e-7 changes the draw only when two tokens tie to 1e-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Randomness(Protocol):
    """What a kernel may ask for. `rows` are the state's rows that the choice is for; each has a stream of its own.

    Answers lie on the device of `rows`.
    """

    def categorical(self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]) -> Int[Tensor, " m"]:
        """One index for each row, with probability proportional to exp(log_weights)."""
        ...

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """log u, u uniform on (0, 1), for each row."""
        ...

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        """A uniformly random order of n things for each row."""
        ...

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        """A uniformly random number below n for each row."""
        ...


class StepStreams:
    """One generator for each row, at one place of the run; satisfies `Randomness`."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = generators

    def categorical(self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]) -> Int[Tensor, " m"]:
        weights = log_weights.detach().double().cpu().numpy()
        chosen = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            noise = self.generators[row].standard_exponential(weights.shape[1])
            chosen[place] = np.argmax(weights[place] - np.log(noise))
        return torch.from_numpy(chosen).to(rows.device)

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        drawn = [-self.generators[row].standard_exponential() for row in rows.tolist()]
        return torch.tensor(drawn, dtype=torch.float64, device=rows.device)

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        drawn = [self.generators[row].permutation(n) for row in rows.tolist()]
        return torch.from_numpy(np.array(drawn, dtype=np.int64).reshape(len(rows), n)).to(rows.device)

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        drawn = [int(self.generators[row].integers(n)) for row in rows.tolist()]
        return torch.tensor(drawn, dtype=torch.long, device=rows.device)


class ChainStreams:
    """The streams of the chains `chains` (their numbers in the whole run) under one seed."""

    def __init__(self, seed: int, chains: Sequence[int]) -> None:
        self.seed, self.chains = seed, list(chains)

    def at(self, sweep: int, step: int) -> StepStreams:
        """Fresh streams for one step of one sweep; the same whenever they are asked for."""
        return StepStreams([self._generator(chain, sweep, step) for chain in self.chains])

    def _generator(self, chain: int, sweep: int, step: int) -> np.random.Generator:
        key = np.array([self.seed, chain], dtype=np.uint64)
        counter = np.array([0, 0, step, sweep], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))
