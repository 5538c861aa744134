"""Entropy-bound unmasking: fill the blanks of lowest entropy at once, as many as can hardly depend on each other.

    H_1 <= H_2 <= ... entropies of the blanks' conditionals;   fill 1 ... m, the largest m with  sum_{i<=m} H_i - H_m <= gamma

Drawing m tokens from the product of their conditionals loses their total correlation, TC <= sum_i H_i - max_i H_i: each step
loses at most gamma nats. gamma = 0 fills one blank per step, the one of lowest entropy (and with it those that are certain).
The set depends on what is revealed and not on the tokens drawn, unlike that of `confidence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.checks import real
from unmask.options.sampling import HOTTEST
from unmask.sampling.decoders.decoder import DecodeInfo, Decoder, DecodeState
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.proposal import Proposal


@dataclass(frozen=True)
class EntropyBound(Decoder):
    """As many steps as the bound needs, at most one per blank; temperature 0 takes the likeliest tokens."""

    gamma: float = 1.0
    decoding_temperature: float = 0.0

    def __post_init__(self) -> None:
        real("gamma", self.gamma, 0, HOTTEST)
        real("decoding_temperature", self.decoding_temperature, 0, HOTTEST)

    @property
    def steps(self) -> int:
        """Every step fills at least one blank."""
        return self.target.sites

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill the blanks of lowest entropy under the bound; one pass for each text that has blanks."""
        target, sites = self.target, self.target.sites
        blank = self.blank(state)
        texts = blank.any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return DecodeInfo(blank, torch.zeros_like(state.rows))
        site = torch.arange(sites, device=texts.device).repeat(len(texts))
        kept = self.passes.conditionals(state.ids[texts], target.free_positions.expand(len(texts), -1)).flatten(0, 1)
        greedy, tempered = self.decoding_temperature == 0, Proposal(self.decoding_temperature or 1.0)
        conditionals = self.passes.proposals(kept, target, tempered, site, torch.zeros_like(site), greedy)
        drawn = rng.tokens(texts.repeat_interleave(sites), conditionals, site)
        tokens, confidence = (v.reshape(-1, sites) for v in (drawn.tokens, (drawn.logit - drawn.log_allowed).exp()))
        entropy = torch.full(blank.shape, torch.inf, dtype=torch.float64, device=blank.device)
        entropy[texts] = conditionals.entropy().nan_to_num(0.0).reshape(-1, sites)  # NaN: filled now, refused by `decode`
        chosen = blank & under_bound(torch.where(blank, entropy, torch.inf), self.gamma)
        here, before = chosen[texts], state.ids[texts]
        state.ids[texts] = before.index_copy(
            1, target.free_positions, torch.where(here, tokens, before[:, target.free_positions])
        )
        state.confidence[texts] = torch.where(here, confidence, state.confidence[texts])
        return DecodeInfo(chosen, blank.any(1).long())


def under_bound(entropy: Float[Tensor, "n F"], gamma: float) -> Bool[Tensor, "n F"]:
    """The largest set of lowest entropies whose sum without its largest is at most gamma; infinite ones are never in it."""
    rising, order = entropy.sort(dim=1, stable=True)
    before = rising.cumsum(1).roll(1, 1).index_fill(1, torch.tensor([0], device=entropy.device), 0.0)
    return torch.zeros_like(entropy, dtype=torch.bool).scatter(1, order, (before <= gamma) & rising.isfinite())
