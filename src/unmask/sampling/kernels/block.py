"""Block Metropolis-Hastings: several tokens at once, B a block that is chosen without looking at the values.

Product proposals mask the block at once:

    x'_b ~ q_b(. | x_{-B}) for each b in B;
    accept with min(1, exp((E(x) - E(x')) / T) prod_b q_b(x_b | x_{-B}) / q_b(x'_b | x_{-B}))

The reverse density runs over the same B, whichever tokens changed. One pass gives all densities; a novel proposal costs the
energy's S terms besides (S - 1 if one token changed).

Sequential proposals keep the dependence inside the block, which a product destroys:

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
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling import registry
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import LastSite, MetropolisKernel, Proposed


@dataclass(frozen=True)
class ProductBlock(MetropolisKernel):
    """The block's tokens are proposed independently of each other."""

    options: registry.Block = registry.Block()

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for all of the block at once; one pass per chain."""
        rows, positions, (n, k) = state.rows, self.target.free_positions[sites], sites.shape
        masked = state.ids.scatter(1, positions, self.target.model.mask_id)
        kept = self.passes.conditionals(masked, positions).flatten(0, 1)
        current = state.ids.gather(1, positions).flatten()
        places = torch.arange(k, device=sites.device).repeat(n)
        conditionals = self.passes.proposals(kept, self.target, self.proposal, sites.flatten(), current)
        drawn = rng.tokens(rows.repeat_interleave(k), conditionals, places)
        log_ratio = (drawn.current_log_density - drawn.log_density).reshape(n, k).sum(1)
        return Proposed(drawn.tokens.reshape(n, k), log_ratio, torch.ones_like(rows))


@dataclass(frozen=True)
class SequentialBlock(MetropolisKernel):
    """The block's tokens are proposed one after the other, in the order of `sites`."""

    options: registry.SequentialBlock = registry.SequentialBlock()

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the block, each given those before it; while they are the current ones, both directions share passes."""
        rows, k, target = state.rows, sites.shape[1], self.target
        positions = target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn, log_ratio = current.clone(), torch.zeros_like(state.user)
        passes = state.passes_of_a_look(self.passes)
        same = torch.ones_like(rows, dtype=torch.bool)

        def predict(values: Int[Tensor, "n k"], j: int, some: Int[Tensor, " m"]) -> Float[Tensor, "m W"]:
            """The conditional of the block's j-th position given values[:, :j], the rest of the block masked."""
            filled = torch.full_like(values[some], target.model.mask_id)
            filled[:, :j] = values[some, :j]
            ids = state.ids[some].scatter(1, positions[some], filled)
            return self.passes.conditionals(ids, positions[some, j : j + 1])[:, 0]

        def where_apart(shared: Float[Tensor, "n W"], values: Int[Tensor, "n k"], j: int) -> Float[Tensor, "n W"]:
            """`shared`, except `predict` for the chains whose two directions differ by now."""
            apart = (~same).nonzero().squeeze(1)
            return shared.index_copy(0, apart, predict(values, j, apart)) if len(apart) else shared

        for j in range(k):
            site, same_before = sites[:, j], same
            if j < k - 1:
                forward = predict(drawn, j, rows)
                backward = where_apart(forward, current, j)
                passes += 1 + (~same).long()
            else:
                backward = state.conditionals(target, self.passes, rows, site)
                forward = where_apart(backward, drawn, j)
                passes += (~same).long()
            there = self.passes.proposals(forward, target, self.proposal, site, current[:, j])
            back = self.passes.proposals(backward, target, self.proposal, site, current[:, j])
            token = rng.tokens(rows, there)
            drawn[:, j] = token.tokens
            log_ratio += back.at(current[:, j]).log_density - token.log_density
            same = same & (token.tokens == current[:, j])
        return Proposed(drawn, log_ratio, passes, last=LastSite(~same_before, forward, target.energy.term_of(token)))
