"""Block Metropolis-Hastings with product proposals.

    mask the block B at once;  x'_b ~ q_b(. | x_{-B}) for each b in B;
    accept with min(1, exp((E(x) - E(x')) / T) prod_b q_b(x_b | x_{-B}) / q_b(x'_b | x_{-B}))

B is chosen without looking at the values. The reverse density runs over the same B, whichever tokens changed. One pass
gives all densities; a novel proposal costs the energy's S terms besides (S - 1 if one token changed).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import MetropolisKernel, Proposed
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.target import Target


@dataclass(frozen=True)
class ProductBlock(MetropolisKernel):
    """The block's tokens are proposed independently of each other."""

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


def proposal_weights(
    target: Target, proposal: Proposal, logits: Float[Tensor, "n k V"], sites: Int[Tensor, "n k"]
) -> Float[Tensor, "n k V"]:
    """The proposal's log-probabilities at the block's sites."""
    return torch.stack([proposal.log_weights(logits[:, j], target.support[sites[:, j]]) for j in range(sites.shape[1])], 1)


def density(log_weights: Float[Tensor, "n k V"], tokens: Int[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """Log-density of the block's tokens under the product."""
    return log_weights.gather(2, tokens.unsqueeze(2)).squeeze(2).sum(1)
