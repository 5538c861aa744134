"""Mask-predict (Ghazvininejad et al. 2019): predict all blanks at once, mask the least sure again, and repeat.

    step s = 1 ... S:  fill every blank from the present text;  mask the n_s sites of lowest confidence, n_S = 0
    linear  n_s = F (1 - s/S);   cosine  n_s = F cos(pi s / 2S);   both rounded down

A site's confidence is the probability of its token when it was last predicted. Tokens are the likeliest (temperature 0)
or drawn. The texts have no tractable probability: a decoder, not a sampler of anything named.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, blank_state, highest
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import Randomness
from unmask.sampling.target import Target

Schedule = Literal["linear", "cosine"]


def blanks_left(sites: int, step: int, steps: int, schedule: Schedule) -> int:
    """How many of `sites` are blank after step `step` of `steps`, counted from 1."""
    share = 1 - step / steps if schedule == "linear" else cos(pi * step / (2 * steps))
    return 0 if step >= steps else int(sites * share + 1e-9)


def check_schedule(steps: int, schedule: str) -> None:
    """Refuse a decoder that would do nothing."""
    if steps < 1:
        raise InputError(f"{steps} decoding steps: give at least one")
    if schedule not in get_args(Schedule):
        raise InputError(f"schedule {schedule!r} is unknown: use one of {', '.join(get_args(Schedule))}")


@dataclass(frozen=True)
class MaskPredict:
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
        """Fill all blanks, then mask the least sure; one pass a text that has blanks."""
        filled = state.ids[:, self.target.free_positions] == self.target.model.mask_id
        fill_blanks(self.target, self.passes, self.temperature, state, rng)
        left = blanks_left(self.target.sites, state.steps + 1, self.steps, self.schedule)
        again = highest(-state.confidence, left)
        values = state.ids[:, self.target.free_positions]
        state.ids[:, self.target.free_positions] = torch.where(again, self.target.model.mask_id, values)
        return state._replace(steps=state.steps + 1), DecodeInfo(filled & ~again, filled.any(1).long())


def fill_blanks(
    target: Target, passes: Passes, temperature: float, state: DecodeState, rng: Randomness
) -> tuple[Bool[Tensor, "n F"], Int[Tensor, "n F"]]:
    """Predict every blank site of every text from one pass; writes ids and confidence, and says where."""
    blank = state.ids[:, target.free_positions] == target.model.mask_id
    texts = blank.any(1).nonzero().squeeze(1)
    if len(texts):
        everywhere = target.free_positions.expand(len(texts), -1)
        logits = passes.logits(state.ids[texts], everywhere)
        plain = Proposal()
        for site in range(target.sites):
            chosen = blank[texts, site].nonzero().squeeze(1)
            if not len(chosen):
                continue
            here, rows = logits[chosen.to(logits.device), site], texts[chosen]
            support = target.support[site].expand(len(rows), -1)
            log_probs = plain.log_weights(here, support)
            if temperature == 0:
                drawn = log_probs.argmax(-1)
            else:
                drawn = rng.categorical(rows, Proposal(temperature).log_weights(here, support))
            state.ids[rows, target.free_positions[site]] = drawn
            state.confidence[rows, site] = log_probs.gather(1, drawn.unsqueeze(1)).squeeze(1).exp()
    return blank, state.ids[:, target.free_positions]
