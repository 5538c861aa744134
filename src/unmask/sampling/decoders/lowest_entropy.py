"""The blanks of lowest entropy first; passes take equal numbers of them.

Blanks of low entropy are often neighbours of revealed tokens and of each other, so they depend on each other more than blanks of
random sets. With one blank per pass this is the best order that is known without looking ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from unmask.sampling.decoders.revealing import RevealingDecoder, Seen, lowest


@dataclass(frozen=True)
class LowestEntropy(RevealingDecoder):
    """Sets of equal size, by entropy."""

    decoding_steps: int | None = 10

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return lowest(seen.entropy, seen.blank, seen.share)
