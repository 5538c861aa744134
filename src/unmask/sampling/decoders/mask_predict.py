"""Mask-predict (Ghazvininejad et al. 2019): predict all blanks at once, mask the least confident again, and repeat.

    step s = 1 ... S:  fill every blank from the present text;  mask the n_s sites of lowest confidence, n_S = 0
    linear  n_s = F (1 - s/S);   cosine  n_s = F cos(pi s / 2S);   both rounded down

A site's confidence is the probability of its token when it was last predicted. Tokens are the likeliest (temperature 0)
or drawn. The texts have no tractable probability: this decodes, and samples no known distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import get_args

from jaxtyping import Bool
from torch import Tensor

from unmask.checks import one_of
from unmask.options.sampling import Schedule
from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, ParallelDecoder, highest
from unmask.sampling.engine.randomness import Randomness


def blanks_left(sites: int, step: int, steps: int, schedule: Schedule) -> int:
    """How many of `sites` are blank after step `step` of `steps`, counted from 1; all of them before the first."""
    share = 1 - step / steps if schedule == "linear" else cos(pi * step / (2 * steps))
    return 0 if step >= steps else int(sites * share + 1e-9)


@dataclass(frozen=True)
class ScheduledDecoder(ParallelDecoder):
    """A decoder with a schedule: how many blanks each step leaves."""

    schedule: Schedule = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("schedule", self.schedule, get_args(Schedule))

    def left(self, state: DecodeState) -> int:
        """How many sites of every text are blank after the step that is under way."""
        return blanks_left(self.target.sites, state.steps + 1, self.decoding_steps, self.schedule)

    def fill(self, state: DecodeState, rng: Randomness) -> Bool[Tensor, "n F"]:
        """Predict every blank site of every text from one pass, and say which sites.

        The number of blanks comes from the schedule, so the GPU need not be asked for it.
        """
        blank = self.blank(state)
        count = blanks_left(self.target.sites, state.steps, self.decoding_steps, self.schedule)
        if count:
            self.predict(state, state.rows, (~blank).byte().argsort(dim=1, stable=True)[:, :count], rng)
        return blank


@dataclass(frozen=True)
class MaskPredict(ScheduledDecoder):
    """Every site may be predicted again, as long as it is among the least confident."""

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill all blanks, then mask the least confident; one pass for each text that has blanks."""
        filled = self.fill(state, rng)
        again = highest(-state.confidence, self.left(state))
        state.mask(self.target, again)
        state.steps += 1
        return DecodeInfo(filled & ~again, filled.any(1).long())
