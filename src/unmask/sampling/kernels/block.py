"""Blocks whose tokens are proposed independently of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.kernels.kernel import LONGEST
from unmask.sampling.kernels.metropolis import Metropolis, Proposed

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.kernels.state import ChainState
    from unmask.sampling.on_target import KernelOnTarget


@method
class Block(Metropolis):
    """A block of tokens at once, independently of each other.

        x'_b ~ q_b(. | x_{-B}) for each b in B, the block;
        accept with min(1, exp((E(x) - E(x')) / T) prod_b q_b(x_b | x_{-B}) / q_b(x'_b | x_{-B}))

    B is chosen without looking at the values, and is masked at once. The reverse density runs over
    the same B, whichever tokens changed. One pass gives all densities; a novel proposal costs the
    energy's S terms besides (S - 1 if one token changed).

    Parameters:
        block_size: Neighbouring tokens that a step redraws at once.

    >>> kernel = unmask.Block(block_size=2)
    >>> run = unmask.sample("A [MASK] [MASK] sat.", kernel=kernel, chains=2, sweeps=1)
    >>> run.settings.kernel.name, len(run.to_frame())
    ('block', 2)
    """

    name = "block"
    label = "product blocks"
    colour = "#009E73"
    place = 3
    step_passes = "1 + up to T"
    block_size: Annotated[int, Interval(ge=1, le=LONGEST)] = 2

    @property
    def sites_per_step(self) -> int:
        return self.block_size

    def propose(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> Proposed:
        """Tokens for all of the block at once; one pass per chain."""
        rows = state.rows
        n, k = sites.shape
        positions = on.target.free_positions[sites]
        masked = state.ids.scatter(1, positions, on.target.model.mask_id)
        outputs = on.passes.outputs(masked, positions).flatten(0, 1)
        current = state.ids.gather(1, positions).flatten()
        places = torch.arange(k, device=sites.device).repeat(n)
        proposals = on.passes.categoricals(
            outputs, on.target, self.proposal_temperature, sites.flatten(), current
        )
        drawn = rng.tokens(rows.repeat_interleave(k), proposals, places)
        log_ratios = drawn.current_log_density - drawn.log_density
        return Proposed(
            tokens=drawn.tokens.reshape(n, k),
            log_ratio=log_ratios.reshape(n, k).sum(1),
            passes=torch.ones_like(rows),
        )
