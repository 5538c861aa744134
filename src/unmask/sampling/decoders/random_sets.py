"""Random sets: passes take equal numbers of blanks, in a random order that is drawn for each text before it begins.

Its law is a probability for each order; the seed draws the orders.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from unmask.sampling.decoders.decoder import DecodeState
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen, lowest
from unmask.sampling.engine.randomness import Randomness


@dataclass(frozen=True)
class RandomSets(RevealingDecoder):
    """Sets of equal size, at random."""

    decoding_steps: int | None = 10

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = DecodeState.blank(self.target, n)
        state.order = rng.permutation(state.rows, self.target.sites)
        return state

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return lowest(seen.order.argsort(1).double(), seen.blank, seen.share)
