"""Pair moves drawn from a joint that is derived from the model's conditionals of the two positions.

    mu: a construction (pseudo_gibbs, arnold_gokhale, ...) over C_a x C_b, the likeliest tokens with both positions masked
    g(y) = (1 - rho) mu(y) + rho m_a(y_a) m_b(y_b),   accepted with min(1, exp((E(x) - E(x')) / T) g(x_ab) / g(y))

The candidate sets, mu, m_a and m_b depend on the rest of the text only, so forward and reverse density are one function g.
The product part gives every allowed pair a positive density: a pair outside the candidates can be proposed and left.
With n candidates a position a move costs 2n + 2 passes besides the energy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import Cloze
from unmask.conditionals import unary_tables
from unmask.errors import InputError
from unmask.joints import Joint, derive
from unmask.sampling.kernels.block import block_conditionals, density
from unmask.sampling.kernels.metropolis_kernel import MetropolisKernel
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo


@dataclass(frozen=True)
class PairJoint(MetropolisKernel):
    """`construction` over the `candidates` likeliest tokens of each position, mixed with a share `rho` of the product."""

    construction: str = "pseudo_gibbs"
    candidates: int = 16
    rho: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.rho < 1:
            raise InputError(
                f"share of the product {self.rho}: give a number between 0 and 1, so that every pair can be proposed"
            )
        if self.candidates < 1:
            raise InputError(f"{self.candidates} candidates: give at least one")

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 2"]) -> tuple[ChainState, StepInfo]:
        """Propose a pair of tokens at a pair of sites of each chain."""
        n = len(state.ids)
        log_weights = block_conditionals(self.target, self.passes, self.proposal, state.ids, sites)
        positions = self.target.free_positions[sites]
        current = state.ids.gather(1, positions)
        joints = [self._joint(state.ids[c], positions[c], log_weights[c]) for c in range(n)]
        shares = torch.tensor([log(1 - self.rho), log(self.rho)], dtype=torch.float64)
        drawn = self._draw(rng, joints, log_weights, rng.categorical(torch.arange(n), shares.expand(n, -1)))
        log_ratio = self._log_density(joints, log_weights, current) - self._log_density(joints, log_weights, drawn)
        novel, new = self.changed_texts(state, sites, drawn)
        derived = torch.tensor([2 + sum(joint.shape) for joint in joints])
        return self.settle(state, rng, sites, novel, new, log_ratio, derived)

    def _joint(self, ids: Int[Tensor, " T"], positions: Int[Tensor, " 2"], log_weights: Float[Tensor, "2 V"]) -> Joint:
        """mu, from the text with both positions masked."""
        masked = ids.scatter(0, positions, self.target.model.mask_id)
        likeliest = [w.topk(min(self.candidates, int((w > -torch.inf).sum()))).indices.sort().values for w in log_weights]
        tables = unary_tables(
            self.target.model, Cloze(tuple(masked.tolist()), tuple(positions.tolist())), likeliest, dtype=torch.float64
        )
        return derive(tables, self.construction)

    def _draw(
        self, rng: Randomness, joints: list[Joint], log_weights: Float[Tensor, "n 2 V"], component: Int[Tensor, " n"]
    ) -> Int[Tensor, "n 2"]:
        """From the joint where the component is 0, from the product where it is 1."""
        drawn = torch.empty((len(joints), 2), dtype=torch.long)
        from_joint, from_product = (component == 0).nonzero().squeeze(1), (component == 1).nonzero().squeeze(1)
        for chain in from_joint.tolist():
            joint = joints[chain]
            cell = rng.categorical(torch.tensor([chain]), joint.dense().flatten().cpu().unsqueeze(0))
            place = torch.unravel_index(cell, joint.shape)
            drawn[chain] = torch.cat([c.cpu()[p] for c, p in zip(joint.tables.candidates, place, strict=True)])
        for j in range(2):
            drawn[from_product, j] = rng.categorical(from_product, log_weights[from_product, j])
        return drawn

    def _log_density(
        self, joints: list[Joint], log_weights: Float[Tensor, "n 2 V"], pairs: Int[Tensor, "n 2"]
    ) -> Float[Tensor, " n"]:
        """log g of each chain's pair."""
        derived = torch.stack([joint.log_prob(pair).double().cpu() for joint, pair in zip(joints, pairs, strict=True)])
        return torch.logaddexp(log(1 - self.rho) + derived, log(self.rho) + density(log_weights, pairs))
