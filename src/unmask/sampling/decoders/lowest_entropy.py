"""The blanks of lowest entropy first; passes take equal numbers of them.

The surest blanks are often neighbours of what is revealed, and of each other: sets of them depend on each other more than random
sets. With one blank per pass it is the best sequential order that is known without looking ahead.
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
