"""Pair moves drawn from a mixture: nine tenths of a joint that is derived from the model's conditionals of the two positions, and
one tenth of the product of the masked distributions.

    mu: a construction (pseudo_gibbs, arnold_gokhale, ...) over C_a x C_b, the likeliest tokens with both positions masked
    g(y) = 0.9 mu(y) + 0.1 m_a(y_a) m_b(y_b),   accepted with min(1, exp((E(x) - E(x')) / T) g(x_ab) / g(y))

The candidate sets, mu, m_a and m_b depend on the rest of the text only, so forward and reverse density are one function g.
mu alone would not do. It is zero outside the candidates, so the chain could not reach those pairs, and where it is very small the
chain would stay for long. With g >= 0.1 m_a m_b every allowed pair can be proposed, and the ratio pi / g, which says how long a
chain stays at a pair, is at most ten times that of a proposal from the product.
With n candidates per position a move costs 2n + 1 passes besides the energy's; all chains share their calls (`pair_laws`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.checks import whole
from unmask.joints.registry import named
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.block import density, proposal_weights
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import MetropolisKernel, Proposed
from unmask.sampling.kernels.pair_laws import PairLaws, pair_laws

PRODUCT_SHARE = 0.1
"""Share of the product in the mixture g."""


@dataclass(frozen=True)
class PairJoint(MetropolisKernel):
    """The construction `joint` over the `candidates` likeliest tokens of each position, mixed with the product."""

    joint: str = "pseudo_gibbs"
    candidates: int = 16

    def __post_init__(self) -> None:
        whole("candidates", self.candidates, 1, 10**5)
        named(self.joint, "joint")

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 2"]) -> Proposed:
        """A pair of tokens at a pair of sites of each chain."""
        target, positions = self.target, self.target.free_positions[sites]
        masked = state.ids.scatter(1, positions, target.model.mask_id)
        logits = self.passes.logits(masked, positions)
        log_weights = proposal_weights(target, self.proposal, logits, sites)
        proposals = _PairProposals(log_weights, self.laws(masked, positions, logits, log_weights))
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

    def __init__(self, log_weights: Float[Tensor, "n 2 V"], laws: PairLaws) -> None:
        self.log_weights, self.laws = log_weights, laws

    def draw(self, rng: Randomness) -> Int[Tensor, "n 2"]:
        """A pair for each chain: from mu with probability 1 - PRODUCT_SHARE, else from the product."""
        first, second, log_mu, _ = self.laws
        n, _, high = log_mu.shape
        rows = torch.arange(n, device=log_mu.device)
        shares = torch.tensor([log(1 - PRODUCT_SHARE), log(PRODUCT_SHARE)], dtype=torch.float64, device=log_mu.device)
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
        product = density(self.log_weights, pairs)
        return torch.logaddexp(log(1 - PRODUCT_SHARE) + derived, log(PRODUCT_SHARE) + product)
