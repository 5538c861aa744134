"""Pair moves drawn from a joint that is derived from the model's conditionals of the two positions.

    mu: a construction (pseudo_gibbs, arnold_gokhale, ...) over C_a x C_b, the likeliest tokens with both positions masked
    g(y) = (1 - rho) mu(y) + rho m_a(y_a) m_b(y_b),   accepted with min(1, exp((E(x) - E(x')) / T) g(x_ab) / g(y))

The candidate sets, mu, m_a and m_b depend on the rest of the text only, so forward and reverse density are one function g.
The product part gives every allowed pair a positive density: a pair outside the candidates can be proposed and left.
With n candidates per position a move costs 2n + 2 passes besides the energy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.checks import whole
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints import derive
from unmask.joints.registry import named
from unmask.sampling.kernels.block import block_conditionals, density
from unmask.sampling.kernels.metropolis import MetropolisKernel, Proposed
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState
from unmask.tables.unary import unary_tables


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
        log_weights = block_conditionals(self.target, self.passes, self.proposal, state.ids, sites)
        positions = self.target.free_positions[sites]
        current = state.ids.gather(1, positions)
        proposals = _PairProposals(
            self.rho, log_weights, [self.derive(*row) for row in zip(state.ids, positions, log_weights, strict=True)]
        )
        drawn = proposals.draw(rng)
        log_ratio = proposals.log_density(current) - proposals.log_density(drawn)
        return Proposed(drawn, log_ratio, 2 + proposals.sizes.sum(1).to(sites.device))

    def derive(
        self, ids: Int[Tensor, " T"], positions: Int[Tensor, " 2"], log_weights: Float[Tensor, "2 V"]
    ) -> tuple[Int[Tensor, " a"], Int[Tensor, " b"], Float[Tensor, "a b"]]:
        """The candidates of both positions and log mu over them, from the text with both masked."""
        masked = ids.scatter(0, positions, self.target.model.mask_id)
        first, second = (w.topk(min(self.candidates, int((w > -torch.inf).sum()))).indices.sort().values for w in log_weights)
        cloze = Cloze(tuple(masked.tolist()), tuple(positions.tolist()))
        tables = unary_tables(self.target.model, cloze, (first, second), dtype=torch.float64)
        return first, second, derive(tables, self.joint).dense()


class _PairProposals:
    """g for each chain: log mu over its candidates, padded to one shape, and the product."""

    def __init__(self, rho: float, log_weights: Float[Tensor, "n 2 V"], derived: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        n, device = len(derived), log_weights.device
        self.rho, self.log_weights = rho, log_weights
        self.sizes = torch.tensor([[len(first), len(second)] for first, second, _ in derived])
        wide, high = self.sizes.amax(0).tolist()
        self.first = torch.full((n, wide), -1, device=device)
        self.second = torch.full((n, high), -1, device=device)
        self.log_mu = torch.full((n, wide, high), -torch.inf, dtype=torch.float64, device=device)
        for c, (first, second, log_mu) in enumerate(derived):
            self.first[c, : len(first)], self.second[c, : len(second)] = first, second
            self.log_mu[c, : len(first), : len(second)] = log_mu

    def draw(self, rng: Randomness) -> Int[Tensor, "n 2"]:
        """A pair for each chain: from mu with probability 1 - rho, else from the product."""
        n, wide, high = self.log_mu.shape
        rows = torch.arange(n, device=self.log_mu.device)
        shares = torch.tensor([log(1 - self.rho), log(self.rho)], dtype=torch.float64, device=self.log_mu.device)
        component = rng.categorical(rows, shares.expand(n, -1))
        drawn = torch.empty_like(rows.unsqueeze(1).expand(-1, 2))
        from_mu, from_product = (component == 0).nonzero().squeeze(1), (component == 1).nonzero().squeeze(1)
        cell = rng.categorical(from_mu, self.log_mu[from_mu].reshape(len(from_mu), wide * high))
        drawn[from_mu, 0] = self.first[from_mu, cell // high]
        drawn[from_mu, 1] = self.second[from_mu, cell % high]
        for j in range(2):
            drawn[from_product, j] = rng.categorical(from_product, self.log_weights[from_product, j])
        return drawn

    def log_density(self, pairs: Int[Tensor, "n 2"]) -> Float[Tensor, " n"]:
        """log g of each chain's pair."""
        rows = torch.arange(len(pairs), device=pairs.device)
        is_first, is_second = self.first == pairs[:, :1], self.second == pairs[:, 1:]
        derived = self.log_mu[rows, is_first.int().argmax(1), is_second.int().argmax(1)]
        derived = torch.where(is_first.any(1) & is_second.any(1), derived, -torch.inf)
        return torch.logaddexp(log(1 - self.rho) + derived, log(self.rho) + density(self.log_weights, pairs))
