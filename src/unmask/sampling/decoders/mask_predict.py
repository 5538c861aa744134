"""Mask-predict (Ghazvininejad et al. 2019): predict all blanks at once, mask the least sure again, and repeat.

    step s = 1 ... S:  fill every blank from the present text;  mask the n_s sites of lowest confidence, n_S = 0
    linear  n_s = F (1 - s/S);   cosine  n_s = F cos(pi s / 2S);   both rounded down

A site's confidence is the probability of its token when it was last predicted. Tokens are the likeliest (temperature 0)
or drawn. The texts have no tractable probability: a decoder, not a sampler of anything named.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import get_args

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.checks import one_of, real, whole
from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, highest
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import Randomness
from unmask.sampling.settings import HOTTEST, Schedule
from unmask.sampling.target import Target


def blanks_left(sites: int, step: int, steps: int, schedule: Schedule) -> int:
    """How many of `sites` are blank after step `step` of `steps`, counted from 1."""
    share = 1 - step / steps if schedule == "linear" else cos(pi * step / (2 * steps))
    return 0 if step >= steps else int(sites * share + 1e-9)


@dataclass(frozen=True)
class ScheduledDecoder:
    """What mask-predict and surest-first decoding share: a number of steps, and how many blanks each leaves.

    `decoding_temperature` 0 takes the likeliest token, otherwise tokens are drawn at that temperature.
    """

    target: Target
    passes: Passes
    decoding_steps: int = 10
    schedule: Schedule = "linear"
    decoding_temperature: float = 0.0
    exact = False

    def __post_init__(self) -> None:
        whole("decoding_steps", self.decoding_steps, 1, 10**6)
        one_of("schedule", self.schedule, get_args(Schedule))
        real("decoding_temperature", self.decoding_temperature, 0, HOTTEST)

    @property
    def steps(self) -> int:
        """As many as were asked for."""
        return self.decoding_steps

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return DecodeState.blank(self.target, n)

    def left(self, state: DecodeState) -> int:
        """How many sites are blank after the step that is under way."""
        return blanks_left(self.target.sites, state.steps + 1, self.decoding_steps, self.schedule)

    def fill(self, state: DecodeState, rng: Randomness) -> Bool[Tensor, "n F"]:
        """Predict every blank site of every text from one pass; writes ids and confidence, and says which sites."""
        target = self.target
        blank = state.ids[:, target.free_positions] == target.model.mask_id
        texts = blank.any(1).nonzero().squeeze(1)
        if not len(texts):
            return blank
        kept = self.passes.conditionals(state.ids[texts], target.free_positions.expand(len(texts), -1))
        row, site = blank[texts].nonzero(as_tuple=True)
        greedy = self.decoding_temperature == 0
        tempered = Proposal(self.decoding_temperature or 1.0)
        conditionals = self.passes.proposals(kept[row, site], target, tempered, site, torch.zeros_like(site), greedy)
        drawn = rng.tokens(texts[row], conditionals, site)
        state.ids[texts[row], target.free_positions[site]] = drawn.tokens
        state.confidence[texts[row], site] = (drawn.logit - drawn.log_allowed).exp()
        return blank


@dataclass(frozen=True)
class MaskPredict(ScheduledDecoder):
    """Every site may be predicted again, as long as it is among the least sure."""

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill all blanks, then mask the least sure; one pass for each text that has blanks."""
        filled = self.fill(state, rng)
        again = highest(-state.confidence, self.left(state))
        state.mask(self.target, again)
        state.steps += 1
        return DecodeInfo(filled & ~again, filled.any(1).long())
