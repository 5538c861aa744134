"""Block Metropolis-Hastings with sequential proposals: dependence inside the block is proposed, not destroyed.

    for b_1 ... b_k, the block in an order that does not look at the values:
        x'_{b_j} ~ q(. | x_{-B}, x'_{b_1} ... x'_{b_{j-1}}; the rest of the block masked)
    g(x' | x) = prod_j q(x'_{b_j} | x_{-B}, x'_{b_<j}),   g(x | x') = prod_j q(x_{b_j} | x_{-B}, x_{b_<j})   in the same order

The last factor of each direction masks one position alone: for x it is in the tables already, for x' it is a pass that
the energy needs anyway. A pair therefore costs what a product proposal costs; k tokens cost 2k - 3 passes besides the
energy's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import LastSite, MetropolisKernel, Proposed


@dataclass(frozen=True)
class SequentialBlock(MetropolisKernel):
    """The block's tokens are proposed one after the other, in the order of `sites`."""

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the block, each given those before it; while they are the current ones, both directions share passes."""
        rows, k, target = state.rows, sites.shape[1], self.target
        positions = target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn, log_ratio = current.clone(), torch.zeros_like(state.user)
        passes = state.passes_of_a_look(self.passes)
        same = torch.ones_like(rows, dtype=torch.bool)
        for j in range(k):
            site, same_before = sites[:, j], same
            if j < k - 1:
                forward = self._predict(state, positions, drawn, j, rows)
                backward = self._where_apart(state, positions, current, j, same, forward)
                passes += 1 + (~same).long()
            else:
                backward = state.conditionals(target, self.passes, rows, site)
                forward = self._where_apart(state, positions, drawn, j, same, backward)
                passes += (~same).long()
            there = self.passes.proposals(forward, target, self.proposal, site, current[:, j])
            back = self.passes.proposals(backward, target, self.proposal, site, current[:, j])
            found = rng.tokens(rows, there)
            drawn[:, j] = found.tokens
            log_ratio += back.at(current[:, j]).log_density - found.log_density
            same = same & (found.tokens == current[:, j])
        return Proposed(drawn, log_ratio, passes, last=LastSite(~same_before, forward, target.energy.term_of(found)))

    def _where_apart(
        self,
        state: ChainState,
        positions: Int[Tensor, "n k"],
        values: Int[Tensor, "n k"],
        j: int,
        same: Bool[Tensor, " n"],
        shared: Float[Tensor, "n W"],
    ) -> Float[Tensor, "n W"]:
        """`shared`, except `_predict` for the chains whose two directions differ by now."""
        apart = (~same).nonzero().squeeze(1)
        if not len(apart):
            return shared
        found = shared.clone()
        found[apart] = self._predict(state, positions, values, j, apart)
        return found

    def _predict(
        self,
        state: ChainState,
        positions: Int[Tensor, "n k"],
        values: Int[Tensor, "n k"],
        j: int,
        rows: Int[Tensor, " m"],
    ) -> Float[Tensor, "m W"]:
        """The conditional of the block's j-th position given values[:, :j], the rest of the block masked."""
        filled = torch.full_like(values[rows], self.target.model.mask_id)
        filled[:, :j] = values[rows, :j]
        ids = state.ids[rows].scatter(1, positions[rows], filled)
        return self.passes.conditionals(ids, positions[rows, j : j + 1])[:, 0]
