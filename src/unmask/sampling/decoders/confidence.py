"""Confidence-ordered unmasking: predict all blanks at once, keep the surest, never look back.

    step s = 1 ... S:  predict every blank from the present text;  keep the surest so that n_s stay blank (mask_predict.py)

With as many steps as blanks this is easy-first decoding. Which site comes next depends on the tokens that are drawn, so
the texts have no tractable probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, blank_state, highest
from unmask.sampling.decoders.mask_predict import Schedule, blanks_left, check_schedule, fill_blanks
from unmask.sampling.passes import Passes
from unmask.sampling.randomness import Randomness
from unmask.sampling.target import Target


@dataclass(frozen=True)
class ConfidenceOrder:
    """`temperature` 0 takes the likeliest token, otherwise tokens are drawn at that temperature."""

    target: Target
    passes: Passes
    steps: int = 10
    schedule: Schedule = "linear"
    temperature: float = 0.0
    exact = False

    def __post_init__(self) -> None:
        check_schedule(self.steps, self.schedule)

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return blank_state(self.target, n)

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, DecodeInfo]:
        """Predict all blanks and keep the surest; one pass a text that has blanks."""
        blank, _ = fill_blanks(self.target, self.passes, self.temperature, state, rng)
        left = blanks_left(self.target.sites, state.steps + 1, self.steps, self.schedule)
        again = blank & highest(torch.where(blank, -state.confidence, -torch.inf), left)
        values = state.ids[:, self.target.free_positions]
        state.ids[:, self.target.free_positions] = torch.where(again, self.target.model.mask_id, values)
        return state._replace(steps=state.steps + 1), DecodeInfo(blank & ~again, blank.any(1).long())
