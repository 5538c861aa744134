"""Entropy-bound unmasking: fill the blanks of lowest entropy at once, as many as can hardly depend on each other.

    H_1 <= H_2 <= ... entropies of the blanks' conditionals;   fill 1 ... m, the largest m with  sum_{i<=m} H_i - H_m <= gamma

Drawing m tokens from the product of their conditionals loses their total correlation, TC <= sum_i H_i - max_i H_i: each step
loses at most gamma nats. gamma = 0 fills one blank per step, the one of lowest entropy (and with it those that are certain).
Given a number of passes, each pass takes the smallest gamma with which the passes that are left suffice if entropies stay as
they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.checks import real
from unmask.options.sampling import HOTTEST
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen

HALVINGS = 20


@dataclass(frozen=True)
class EntropyBound(RevealingDecoder):
    """As many steps as the bound needs, at most one per blank."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real("gamma", self.gamma, 0, HOTTEST)

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        entropy = torch.where(seen.blank, seen.entropy, torch.inf)
        gamma = torch.full_like(seen.entropy[:, :1], self.gamma) if seen.left is None else least_bound(entropy, seen.left)
        return under_bound(entropy, gamma)


def under_bound(entropy: Float[Tensor, "n F"], gamma: Float[Tensor, "n 1"]) -> Bool[Tensor, "n F"]:
    """The largest set of lowest entropies whose sum without its largest is at most gamma; infinite ones are never in it."""
    rising, order = entropy.sort(dim=1, stable=True)
    before = rising.cumsum(1).roll(1, 1).index_fill(1, torch.tensor([0], device=entropy.device), 0.0)
    return torch.zeros_like(entropy, dtype=torch.bool).scatter(1, order, (before <= gamma) & rising.isfinite())


def least_bound(entropy: Float[Tensor, "n F"], passes: int) -> Float[Tensor, "n 1"]:
    """The smallest gamma, to one part in a million, that parts the finite entropies into at most this many sets."""
    rising = entropy.sort(dim=1).values
    finite = rising.isfinite()
    low = torch.zeros_like(rising[:, :1])
    high = torch.where(finite, rising, 0.0).sum(1, keepdim=True)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = _sets(rising, finite, middle) <= passes
        low, high = torch.where(fits, low, middle), torch.where(fits, middle, high)
    return high


def _sets(rising: Float[Tensor, "n F"], finite: Bool[Tensor, "n F"], gamma: Float[Tensor, "n 1"]) -> Float[Tensor, "n 1"]:
    """Into how many sets the bound parts the entropies, lowest first."""
    spent, sets = torch.full_like(gamma, torch.inf), torch.zeros_like(gamma)
    for column in range(rising.shape[1]):
        new = (spent > gamma) & finite[:, column : column + 1]
        sets = sets + new
        spent = torch.where(new, 0.0, spent) + rising[:, column : column + 1]
    return sets
