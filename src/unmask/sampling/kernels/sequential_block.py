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

from unmask.sampling.kernels.metropolis import LastSite, MetropolisKernel, Proposed
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState


@dataclass(frozen=True)
class SequentialBlock(MetropolisKernel):
    """The block's tokens are proposed one after the other, in the order of `sites`."""

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the block, each given those before it; as long as they are the current ones, both ways share passes."""
        rows, k = state.rows, sites.shape[1]
        positions = self.target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn = current.clone()
        log_ratio = torch.zeros_like(state.user)
        passes = torch.zeros_like(rows)
        same = torch.ones_like(rows, dtype=torch.bool)
        forward = torch.empty_like(state.tables[:, 0])
        for j in range(k):
            same_before = same
            if j < k - 1:
                self._predict(state, positions, drawn, j, torch.ones_like(same), forward, passes)
                backward = forward.clone()
                self._predict(state, positions, current, j, ~same, backward, passes)
            else:
                backward = state.tables[rows, sites[:, j]]
                forward[same] = backward[same]
                self._predict(state, positions, drawn, j, ~same, forward, passes)
            support = self.target.support[sites[:, j]]
            log_forward = self.proposal.log_weights(forward, support)
            log_backward = self.proposal.log_weights(backward, support)
            drawn[:, j] = rng.categorical(rows, log_forward)
            log_ratio += log_backward[rows, current[:, j]] - log_forward[rows, drawn[:, j]]
            same = same & (drawn[:, j] == current[:, j])
        return Proposed(drawn, log_ratio, passes, LastSite(~same_before, forward))

    def _predict(
        self,
        state: ChainState,
        positions: Int[Tensor, "n k"],
        values: Int[Tensor, "n k"],
        j: int,
        wanted: Bool[Tensor, " n"],
        out: Float[Tensor, "n V"],
        passes: Int[Tensor, " n"],
    ) -> None:
        """Into `out`: logits at the block's j-th position given values[:, :j], the rest of the block masked."""
        chosen = wanted.nonzero().squeeze(1)
        if not len(chosen):
            return
        filled = torch.full_like(values[chosen], self.target.model.mask_id)
        filled[:, :j] = values[chosen, :j]
        ids = state.ids[chosen].scatter(1, positions[chosen], filled)
        out[chosen] = self.passes.logits(ids, positions[chosen, j : j + 1])[:, 0]
        passes[chosen] += 1
