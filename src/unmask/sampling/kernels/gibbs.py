"""Pseudo-Gibbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.kernels.state import ChainState, StepInfo

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import KernelOnTarget


@method
class Gibbs(Kernel):
    """One token from its conditional, always accepted.

        x_i ~ q_i(. | x_{-i})

    With the conditionals of one joint this is Gibbs sampling of that joint. A masked language
    model's conditionals are in general those of no joint: the chain then has a law of its own,
    which depends on the order of the updates and is neither exp(-E_raw) nor exp(-E_norm).

    One pass per update, none if no other token changed since the last look. The energy of a state
    is known only where its columns happen to be fresh.

    >>> kernel = unmask.Gibbs(proposal_temperature=0.5)
    >>> run = unmask.sample("A [MASK] [MASK] sat.", kernel=kernel, chains=2, sweeps=1)
    >>> run.settings.kernel.name, len(run.to_frame())
    ('gibbs', 2)
    """

    name = "gibbs"
    label = "pseudo-Gibbs"
    colour = "#D55E00"
    place = 2
    step_passes = "1, or 0 if nothing changed since"
    law = "a law of its own, which depends on the scan"
    verdict = (
        "Pseudo-Gibbs accepts everything: its law is not exp(-E) of either energy and depends on"
        " the order of updates. R-hat shows whether the chains agree with each other, not whether"
        " they agree with a target."
    )

    def step(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]
    ) -> tuple[ChainState, StepInfo]:
        """Redraw one site of each chain."""
        target = on.target
        rows = state.rows
        site = sites[:, 0]
        column = target.free[site]
        position = target.free_positions[site]
        stale = ~state.fresh[rows, column]
        unknown = stale.nonzero().squeeze(1)
        state.look(target, on.passes, unknown, site[unknown])
        current = state.ids[rows, position]
        outputs = state.outputs_at(rows, site)
        conditionals = on.passes.categoricals(
            outputs, target, self.proposal_temperature, site, current
        )
        drawn = rng.tokens(rows, conditionals)
        changed = (drawn.tokens != current).unsqueeze(1)
        state.ids[rows, position] = drawn.tokens
        state.fresh &= ~changed  # other columns saw the token that was there
        state.fresh.scatter_(1, column.unsqueeze(1), True)
        state.terms[rows, column] = on.terms_of_draw(drawn, outputs)
        state.user = target.energy.from_user(state.ids)
        info = StepInfo(
            sites=sites,
            accepted=torch.ones_like(changed[:, 0]),
            proposed=changed,
            changed=changed,
            passes=stale.long(),
        )
        return state, info
