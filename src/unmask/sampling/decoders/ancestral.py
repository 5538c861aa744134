"""Any-order ancestral sampling: fill one blank after the other, each given all that is filled, the rest masked.

    p(x | order s_1 ... s_F) = prod_j q(x_{s_j} | x_{s_<j}; the rest masked)

A proper distribution over the texts, whose log-probability comes with each draw: F independent samples cost F^2 passes and
need no chain. It depends on the order, because no joint has all of these conditionals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.checks import one_of
from unmask.options.sampling import Order
from unmask.sampling.decoders.decoder import DecodeInfo, Decoder, DecodeState
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Conditionals
from unmask.sampling.kernels.proposal import Proposal


@dataclass(frozen=True)
class Ancestral(Decoder):
    """One blank per step, in a random order, drawn for each text, or in a fixed one."""

    proposal: Proposal = field(default_factory=Proposal)
    order: Order = "random"

    def __post_init__(self) -> None:
        one_of("order", self.order, get_args(Order))

    @property
    def exact(self) -> bool:
        return True

    @property
    def steps(self) -> int:
        """One for each free position."""
        return self.target.sites

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = DecodeState.blank(self.target, n)
        if self.order == "random":
            state.order = rng.permutation(state.rows, self.target.sites)
        elif self.order == "right-to-left":
            state.order = state.order.flip(1)
        return state

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill the next site of each text's order; one pass per text."""
        rows, site = state.rows, state.order[:, state.steps]
        drawn = rng.tokens(rows, self._next(state.ids, site))
        state.ids[rows, self.target.free_positions[site]] = drawn.tokens
        state.confidence[rows, site] = drawn.log_density.exp()
        state.log_prob = state.log_prob + drawn.log_density
        state.steps += 1
        filled = torch.zeros_like(state.confidence, dtype=torch.bool)
        filled[rows, site] = True
        return DecodeInfo(filled, torch.ones_like(rows))

    def log_prob(self, ids: Int[Tensor, "n T"], order: Int[Tensor, "n F"]) -> Float[Tensor, " n"]:
        """log p(x | order) of given texts; F passes per text."""
        self.target.check(ids)
        rows = torch.arange(len(ids), device=ids.device)
        visible = ids.index_fill(1, self.target.free_positions, self.target.model.mask_id)
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        for site in order.T:
            position = self.target.free_positions[site]
            tokens = ids[rows, position]
            total += self._next(visible, site).at(tokens).log_density
            visible[rows, position] = tokens
        return total

    def _next(self, ids: Int[Tensor, "n T"], site: Int[Tensor, " n"]) -> Conditionals:
        kept = self.passes.conditionals(ids, self.target.free_positions[site].unsqueeze(1))[:, 0]
        return self.passes.proposals(kept, self.target, self.proposal, site, torch.zeros_like(site))
