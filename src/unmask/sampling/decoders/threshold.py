"""Confidence threshold: fill the blanks whose likeliest token has a probability of tau or more; at least the surest one.

Given a number of passes instead of tau, each pass takes the largest tau with which the passes that are left suffice if
confidences stay as they are: of b blanks and r passes the b - r + 1 surest, since those below tau take a pass each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.checks import real
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen, lowest


@dataclass(frozen=True)
class Threshold(RevealingDecoder):
    """All that the model is sure of."""

    tau: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        real("tau", self.tau, 0, 1)

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        one = torch.ones_like(seen.share)
        if seen.left is not None:
            return lowest(-seen.confidence, seen.blank, torch.maximum(one, seen.blank.sum(1) - seen.left + 1))
        return lowest(-seen.confidence, seen.blank, one) | (seen.blank & (seen.confidence >= self.tau))
