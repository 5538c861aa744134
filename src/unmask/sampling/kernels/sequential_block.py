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

from unmask.sampling.kernels.metropolis_kernel import MetropolisKernel
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo


@dataclass(frozen=True)
class SequentialBlock(MetropolisKernel):
    """The block's tokens are proposed one after the other, in the order of `sites`."""

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> tuple[ChainState, StepInfo]:
        """Propose tokens for the block, each given those before it."""
        n, k = sites.shape
        rows, device = torch.arange(n), state.tables.device
        positions = self.target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn = current.clone()
        log_ratio = torch.zeros(n, dtype=torch.float64)
        passes = torch.zeros(n, dtype=torch.long)
        same = torch.ones(n, dtype=torch.bool)
        forward = torch.empty((n, self.target.model.vocab_size), dtype=state.tables.dtype, device=device)
        for j in range(k):
            same_before = same
            if j < k - 1:
                self._predict(state, positions, drawn, j, torch.ones_like(same), forward, passes)
                backward = forward.clone()
                self._predict(state, positions, current, j, ~same, backward, passes)
            else:
                backward = state.tables[rows.to(device), sites[:, j].to(device)]
                forward[same.to(device)] = backward[same.to(device)]
                self._predict(state, positions, drawn, j, ~same, forward, passes)
            support = self.target.support[sites[:, j]]
            log_forward = self.proposal.log_weights(forward, support)
            log_backward = self.proposal.log_weights(backward, support)
            drawn[:, j] = rng.categorical(rows, log_forward)
            log_ratio += log_backward[rows, current[:, j]] - log_forward[rows, drawn[:, j]]
            same = same & (drawn[:, j] == current[:, j])
        novel, new = self.changed_texts(state, sites, drawn)
        self._keep_last(new, novel, sites, drawn, forward, same_before)
        return self.settle(state, rng, sites, novel, new, log_ratio, passes)

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
        out[chosen.to(out.device)] = self.passes.logits(ids, positions[chosen, j : j + 1])[:, 0]
        passes[chosen] += 1

    def _keep_last(
        self,
        new: ChainState,
        novel: Int[Tensor, " m"],
        sites: Int[Tensor, "n k"],
        drawn: Int[Tensor, "n k"],
        forward: Float[Tensor, "n V"],
        same_before: Bool[Tensor, " n"],
    ) -> None:
        """The forward pass of the last site masked it alone in the new text: its table and term are known."""
        places = (~same_before[novel]).nonzero().squeeze(1)
        chains, device = novel[places], new.tables.device
        site = sites[chains, -1]
        logits = forward[chains.to(device)]
        new.tables[places.to(device), site.to(device)] = logits
        column = self.target.free[site]
        new.terms[places, column] = self.target.energy.term(logits, drawn[chains, -1])
        new.fresh[places, column] = True
