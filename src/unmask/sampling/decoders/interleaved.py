"""Interleaving: every m-th blank at once, m the number of passes.

    pass r = 0 ... m-1 fills the sites i with  i mod m = o_r,   o: the numbers 0 ... m-1 in the order of their reversed bits

For m a power of two, every site that is left after half of the passes has revealed neighbours on both sides (at the ends: on
one). It knows nothing of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.sampling.decoders.revealing import RevealingDecoder, Seen


@dataclass(frozen=True)
class Interleaved(RevealingDecoder):
    """Sites of one offset at a time."""

    decoding_steps: int | None = 10

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        return seen.blank & every_nth(self.target.sites, self.steps, seen.step).to(seen.blank.device)


def every_nth(sites: int, passes: int, step: int) -> Bool[Tensor, " F"]:
    """The sites that pass `step` of `passes` fills."""
    return torch.arange(sites) % passes == offsets(passes)[step]


def offsets(passes: int) -> list[int]:
    """0 ... passes - 1 in the order of their reversed bits; of another number than a power of two, those below it."""
    bits = (passes - 1).bit_length()
    reversed_bits = (int(f"{r:0{bits}b}"[::-1], 2) if bits else 0 for r in range(2**bits))
    return [offset for offset in reversed_bits if offset < passes]
