"""Random choices as an argument: a counter-based stream for each chain, sweep and step (see `philox`).

A chain's choices depend on the seed, its own number and where it is, and not on which other chains run beside it, how they
are batched, or whether the run was interrupted. The calls of a step come in an order that does not depend on the chains'
values, so that the number of a call is part of the counter; a call may be for some of the rows only.

One uniform number draws a token, by the inverse of the cumulative distribution (see `token_draw`). Gumbel's maximum needs a
number for every token of the vocabulary: on a CPU that costs more than everything else that a step does with the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.engine.philox import uniform
from unmask.sampling.engine.token_draw import Conditionals, Drawn


@runtime_checkable
class Randomness(Protocol):
    """Random choices of a kernel. `rows` are the rows of the state that a choice is for; each has its own stream.

    Answers are on the device of `rows`.
    """

    def tokens(self, rows: Int[Tensor, " m"], conditionals: Conditionals, places: Int[Tensor, " m"] | None = None) -> Drawn:
        """A token from each of the conditionals; `places` distinguish several of one row."""
        ...

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
    """The streams of the chains `chains` at one place of the run; satisfies `Randomness`."""

    def __init__(self, seed: int, chains: Int[Tensor, " r"], sweep: int, step: int) -> None:
        self.seed, self.chains, self.sweep, self.step = seed, chains, sweep, step
        self.calls = 0

    def uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, "#m p"]) -> Float[Tensor, "m p"]:
        """A number on (0, 1) for each row and place; the next call of the step."""
        self.calls += 1
        chains = self.chains.to(rows.device)[rows]
        return uniform(self.seed, chains, self.sweep, self.step, self.calls - 1, places)

    def tokens(self, rows: Int[Tensor, " m"], conditionals: Conditionals, places: Int[Tensor, " m"] | None = None) -> Drawn:
        return conditionals.draw(self._one(rows, places))

    def categorical(self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]) -> Int[Tensor, " m"]:
        return Conditionals.weights(log_weights).draw(self._one(rows)).tokens

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        return self._one(rows).log()

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        return self.uniform(rows, torch.arange(n, device=rows.device).unsqueeze(0)).argsort(dim=1, stable=True)

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        return (self._one(rows) * n).long()

    def _one(self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None) -> Float[Tensor, " m"]:
        where = torch.zeros((1, 1), dtype=torch.long, device=rows.device) if places is None else places.unsqueeze(1)
        return self.uniform(rows, where).squeeze(1)


class ChainStreams:
    """The streams of the chains `chains` (their numbers in the whole run) under one seed."""

    def __init__(self, seed: int, chains: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seed, self.chains = seed, torch.tensor(list(chains), dtype=torch.long, device=device)

    def at(self, sweep: int, step: int) -> StepStreams:
        """Fresh streams for one step of one sweep; the same whenever they are asked for."""
        return StepStreams(self.seed, self.chains, sweep, step)
