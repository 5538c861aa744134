"""Choices of positions for decoders with a law (see `revealing`), by what one pass says about each blank or by its place.

Entropy-bound unmasking fills the blanks of lowest entropy, as many as can hardly depend on each other:

    H_1 <= H_2 <= ... entropies of the blanks' conditionals;   fill 1 ... m, the largest m with  sum_{i<=m} H_i - H_m <= gamma

Drawing m tokens from the product of their conditionals loses their total correlation, TC <= sum_i H_i - max_i H_i: each step
loses at most gamma nats. gamma = 0 fills one blank per step, the one of lowest entropy (and with it those that are certain).
Given a number of passes, each pass takes the smallest gamma with which the passes that are left suffice if entropies stay as
they are.

Interleaving fills every m-th blank at once, m the number of passes, and does not use the model:

    pass r = 0 ... m-1 fills the sites i with  i mod m = o_r,   o: the numbers 0 ... m-1 in the order of their reversed bits

For m a power of two, every site that is left after half of the passes has revealed neighbours on both sides (at the ends: on
one).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.sampling.decoders.decoder import DecodeState, lowest
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen
from unmask.sampling.engine.randomness import Randomness

PARTS, ROUNDS = 32, 4


@dataclass(frozen=True)
class EntropyBound(RevealingDecoder):
    """As many steps as the bound needs, at most one per blank."""

    decoding_steps: int | None = None
    gamma: float = 1.0

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        entropy = torch.where(seen.blank, seen.entropy, torch.inf)
        gamma = torch.full_like(seen.entropy[:, :1], self.gamma) if seen.left is None else least_bound(entropy, seen.left)
        return under_bound(entropy, gamma)


@dataclass(frozen=True)
class Threshold(RevealingDecoder):
    """All blanks whose likeliest token has a probability of tau or more; at least the most confident one.

    Given a number of passes instead of tau, each pass takes the tau that fills an equal share of the blanks: of b blanks and r
    passes that are left, the ceil(b / r) most confident.
    """

    decoding_steps: int | None = None
    tau: float = 0.9

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        if seen.left is not None:
            return lowest(-seen.confidence, seen.blank, seen.share)
        return lowest(-seen.confidence, seen.blank, 1) | (seen.blank & (seen.confidence >= self.tau))


@dataclass(frozen=True)
class LowestEntropy(RevealingDecoder):
    """The blanks of lowest entropy; passes take equal numbers of them.

    They are often neighbours of revealed tokens and of each other, so they depend on each other more than blanks of random sets.
    With one blank per pass this is the best order that is known without looking ahead.
    """

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return lowest(seen.entropy, seen.blank, seen.share)


@dataclass(frozen=True)
class RandomSets(RevealingDecoder):
    """Equal numbers of blanks, in a random order that is drawn for each text before it begins; its law is given the order."""

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = super().init(n, rng)
        state.order = rng.permutation(state.rows, self.target.sites)
        return state

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return lowest(seen.order.argsort(1).double(), seen.blank, seen.share)


@dataclass(frozen=True)
class Interleaved(RevealingDecoder):
    """Sites of one offset at a time."""

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return seen.blank & every_nth(self.target.sites, self.steps, seen.step).to(seen.blank.device)


def under_bound(entropy: Float[Tensor, "n F"], gamma: Float[Tensor, "n 1"]) -> Bool[Tensor, "n F"]:
    """The largest set of lowest entropies whose sum without its largest is at most gamma; infinite ones are never in it."""
    rising, order = entropy.sort(dim=1, stable=True)
    before = rising.cumsum(1).roll(1, 1).index_fill(1, torch.tensor([0], device=entropy.device), 0.0)
    return torch.zeros_like(entropy, dtype=torch.bool).scatter(1, order, (before <= gamma) & rising.isfinite())


def least_bound(entropy: Float[Tensor, "n F"], passes: int) -> Float[Tensor, "n 1"]:
    """The smallest gamma, to one part in a million, that parts the finite entropies into at most this many sets.

    Each round tries PARTS values between the bounds at once.
    """
    rising = entropy.sort(dim=1).values
    finite = rising.isfinite()
    low = torch.zeros_like(rising[:, :1])
    high = torch.where(finite, rising, 0.0).sum(1, keepdim=True)
    shares = torch.arange(1, PARTS, dtype=rising.dtype, device=rising.device) / PARTS
    for _ in range(ROUNDS):
        tried = torch.cat([low + (high - low) * shares, high], 1)  # `high` itself, which fits, not rounded
        first = (_sets(rising, finite, tried) <= passes).byte().argmax(1, keepdim=True)
        low, high = torch.where(first > 0, tried.gather(1, (first - 1).clamp(min=0)), low), tried.gather(1, first)
    return high


def _sets(rising: Float[Tensor, "n F"], finite: Bool[Tensor, "n F"], gamma: Float[Tensor, "n g"]) -> Float[Tensor, "n g"]:
    """Into how many sets each bound parts the entropies, lowest first."""
    spent, sets = torch.full_like(gamma, torch.inf), torch.zeros_like(gamma)
    for column in range(rising.shape[1]):
        new = (spent > gamma) & finite[:, column : column + 1]
        sets = sets + new
        spent = torch.where(new, 0.0, spent) + rising[:, column : column + 1]
    return sets


def every_nth(sites: int, passes: int, step: int) -> Bool[Tensor, " F"]:
    """The sites that pass `step` of `passes` fills."""
    return torch.arange(sites) % passes == offsets(passes)[step]


def offsets(passes: int) -> list[int]:
    """0 ... passes - 1 in the order of their reversed bits, each written with as many bits as passes - 1 has."""
    bits = (passes - 1).bit_length()
    reversed_bits = (int(f"{r:0{bits}b}"[::-1], 2) if bits else 0 for r in range(2**bits))
    return [offset for offset in reversed_bits if offset < passes]
