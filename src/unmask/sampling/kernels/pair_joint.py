"""Pair moves drawn from a joint that is derived from the model's conditionals of the two positions.

    mu: a construction (pseudo_gibbs, arnold_gokhale, ...) over C_a x C_b, the likeliest tokens with both positions masked
    g(y) = (1 - rho) mu(y) + rho m_a(y_a) m_b(y_b),   accepted with min(1, exp((E(x) - E(x')) / T) g(x_ab) / g(y))

The candidate sets, mu, m_a and m_b depend on the rest of the text only, so forward and reverse density are one function g.
The product part gives every allowed pair a positive density: a pair outside the candidates can be proposed and left.
With n candidates per position a move costs 2n + 1 passes besides the energy's; all chains share their calls (`pair_laws`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.checks import whole
from unmask.errors import InputError
from unmask.joints.registry import named
from unmask.sampling.kernels.block import density, proposal_weights
from unmask.sampling.kernels.metropolis import MetropolisKernel, Proposed
from unmask.sampling.pair_laws import PairLaws, pair_laws
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState


@dataclass(frozen=True)
class PairJoint(MetropolisKernel):
    """The construction `joint` over the `candidates` likeliest tokens of each position, and a share `rho` of the product."""

    joint: str = "pseudo_gibbs"
    candidates: int = 16
    rho: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.rho < 1:
            raise InputError(
                f"share of the product {self.rho}: give a number between 0 and 1, so that every pair can be proposed"
            )
        whole("candidates", self.candidates, 1, 10**5)
        named(self.joint, "joint")

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 2"]) -> Proposed:
        """A pair of tokens at a pair of sites of each chain."""
        target, positions = self.target, self.target.free_positions[sites]
        masked = state.ids.scatter(1, positions, target.model.mask_id)
        logits = self.passes.logits(masked, positions)
        log_weights = proposal_weights(target, self.proposal, logits, sites)
        proposals = _PairProposals(self.rho, log_weights, self.laws(masked, positions, logits, log_weights))
        drawn = proposals.draw(rng)
        log_ratio = proposals.log_density(state.ids.gather(1, positions)) - proposals.log_density(drawn)
        return Proposed(drawn, log_ratio, 1 + proposals.laws.passes)

    def laws(
        self,
        masked: Int[Tensor, "n T"],
        positions: Int[Tensor, "n 2"],
        logits: Float[Tensor, "n 2 V"],
        log_weights: Float[Tensor, "n 2 V"],
    ) -> PairLaws:
        """mu of each chain, from its text with the pair masked and what the model says there."""
        return pair_laws(self.passes, masked, positions, logits, log_weights, self.candidates, self.joint)


class _PairProposals:
    """g for each chain: mu over its candidates, and the product."""

    def __init__(self, rho: float, log_weights: Float[Tensor, "n 2 V"], laws: PairLaws) -> None:
        self.rho, self.log_weights, self.laws = rho, log_weights, laws

    def draw(self, rng: Randomness) -> Int[Tensor, "n 2"]:
        """A pair for each chain: from mu with probability 1 - rho, else from the product."""
        first, second, log_mu, _ = self.laws
        n, _, high = log_mu.shape
        rows = torch.arange(n, device=log_mu.device)
        shares = torch.tensor([log(1 - self.rho), log(self.rho)], dtype=torch.float64, device=log_mu.device)
        component = rng.categorical(rows, shares.expand(n, -1))
        drawn = torch.empty_like(rows.unsqueeze(1).expand(-1, 2))
        from_mu, from_product = (component == 0).nonzero().squeeze(1), (component == 1).nonzero().squeeze(1)
        cell = rng.categorical(from_mu, log_mu[from_mu].flatten(1))
        drawn[from_mu, 0] = first[from_mu, cell // high]
        drawn[from_mu, 1] = second[from_mu, cell % high]
        for j in range(2):
            drawn[from_product, j] = rng.categorical(from_product, self.log_weights[from_product, j])
        return drawn

    def log_density(self, pairs: Int[Tensor, "n 2"]) -> Float[Tensor, " n"]:
        """log g of each chain's pair."""
        first, second, log_mu, _ = self.laws
        rows = torch.arange(len(pairs), device=pairs.device)
        is_first, is_second = first == pairs[:, :1], second == pairs[:, 1:]
        derived = log_mu[rows, is_first.int().argmax(1), is_second.int().argmax(1)]
        derived = torch.where(is_first.any(1) & is_second.any(1), derived, -torch.inf)
        return torch.logaddexp(log(1 - self.rho) + derived, log(self.rho) + density(self.log_weights, pairs))
