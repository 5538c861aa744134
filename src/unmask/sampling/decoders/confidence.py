"""Confidence-ordered unmasking: predict all blanks at once, keep the most confident, never look back.

    step s = 1 ... S:  predict every blank from the text;  keep the most confident so that n_s stay blank (mask_predict.py)

With as many steps as blanks this is easy-first decoding. Which site comes next depends on the tokens that are drawn, so
the texts have no tractable probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, highest
from unmask.sampling.decoders.mask_predict import ScheduledDecoder
from unmask.sampling.engine.randomness import Randomness


@dataclass(frozen=True)
class ConfidenceOrder(ScheduledDecoder):
    """A site that was kept once is never predicted again."""

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Predict all blanks and keep the most confident; one pass for each text that has blanks."""
        blank = self.fill(state, rng)
        again = blank & highest(torch.where(blank, -state.confidence, -torch.inf), self.left(state))
        state.mask(self.target, again)
        state.steps += 1
        return DecodeInfo(blank & ~again, blank.any(1).long())
