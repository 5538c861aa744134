"""Confidence threshold: fill the blanks whose likeliest token has a probability of tau or more; at least the most confident one.

Given a number of passes instead of tau, each pass takes the tau that fills an equal share of the blanks: of b blanks and r
passes that are left, the ceil(b / r) most confident.
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
    """All blanks with confidence tau or more."""

    tau: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        real("tau", self.tau, 0, 1)

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        if seen.left is not None:
            return lowest(-seen.confidence, seen.blank, seen.share)
        surest = lowest(-seen.confidence, seen.blank, torch.ones_like(seen.share))
        return surest | (seen.blank & (seen.confidence >= self.tau))
