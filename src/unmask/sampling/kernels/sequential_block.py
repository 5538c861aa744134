"""Blocks whose tokens are proposed one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.metropolis import LastSite, Proposed

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.kernels.state import ChainState
    from unmask.sampling.on_target import KernelOnTarget


@method
class SequentialBlock(Block):
    """A block of tokens, each given those before it.

        for b_1 ... b_k, the block in an order that does not look at the values:
            x'_{b_j} ~ q(. | x_{-B}, x'_{b_1} ... x'_{b_{j-1}}; the rest of the block masked)
        g(x' | x) = prod_j q(x'_{b_j} | x_{-B}, x'_{b_<j}),
        g(x | x') = prod_j q(x_{b_j} | x_{-B}, x_{b_<j})   in the same order

    This keeps the dependence inside the block, which a product destroys. Proposals are accepted as
    those of every Metropolis kernel.

    The last factor of each direction masks one position alone: for x it is in the tables already,
    for x' it is a pass that the energy needs anyway. A pair therefore costs what a product proposal
    costs; k tokens cost 2k - 3 passes besides the energy's.

    >>> kernel = unmask.SequentialBlock(block_size=2)
    >>> run = unmask.sample("A [MASK] [MASK] sat.", kernel=kernel, chains=2, sweeps=1)
    >>> run.settings.kernel.name, len(run.to_frame())
    ('sequential-block', 2)
    """

    name = "sequential-block"
    label = "sequential blocks"
    colour = "#CC79A7"
    place = 4
    step_passes = "up to 2k - 3 + T; for a pair as `block`"
    conditionals = 1

    def propose(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> Proposed:
        """Tokens for the block, in the order of `sites`, each given those before it; while they
        are the current ones, both directions share passes.
        """
        target = on.target
        rows = state.rows
        k = sites.shape[1]
        positions = target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn = current.clone()
        log_ratio = torch.zeros_like(state.user)
        passes = torch.zeros_like(rows)
        same = torch.ones_like(rows, dtype=torch.bool)  # chains that drew the current tokens so far

        def predict(
            values: Int[Tensor, "n k"], j: int, chains: Int[Tensor, " m"]
        ) -> Float[Tensor, "m W"]:
            """The output at the block's j-th position given values[:, :j], the rest of the
            block masked.
            """
            filled = torch.full_like(values[chains], target.model.mask_id)
            filled[:, :j] = values[chains, :j]
            ids = state.ids[chains].scatter(1, positions[chains], filled)
            return on.passes.outputs(ids, positions[chains, j : j + 1])[:, 0]

        def where_apart(
            shared: Float[Tensor, "n W"], values: Int[Tensor, "n k"], j: int
        ) -> Float[Tensor, "n W"]:
            """`shared`, except `predict` for the chains whose two directions differ by now."""
            apart = (~same).nonzero().squeeze(1)
            if len(apart) == 0:
                return shared
            return shared.index_copy(0, apart, predict(values, j, apart))

        for j in range(k):
            site = sites[:, j]
            same_before = same
            is_last = j == k - 1
            if is_last:
                backward = state.outputs_at(rows, site)
                forward = where_apart(backward, drawn, j)
                passes += (~same).long()
            else:
                forward = predict(drawn, j, rows)
                backward = where_apart(forward, current, j)
                passes += 1 + (~same).long()
            there = on.passes.categoricals(
                forward, target, self.proposal_temperature, site, current[:, j]
            )
            back = on.passes.categoricals(
                backward, target, self.proposal_temperature, site, current[:, j]
            )
            token = rng.tokens(rows, there)
            drawn[:, j] = token.tokens
            log_ratio += back.at(current[:, j]).log_density - token.log_density
            same = same & (token.tokens == current[:, j])
        return Proposed(
            tokens=drawn,
            log_ratio=log_ratio,
            passes=passes,
            last=LastSite(
                known=~same_before, outputs=forward, terms=on.terms_of_draw(token, forward)
            ),
        )
