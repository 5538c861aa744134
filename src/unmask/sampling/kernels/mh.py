"""Metropolis-Hastings, one site at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.kernels.metropolis import Metropolis, Proposed

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.kernels.state import ChainState
    from unmask.sampling.on_target import KernelOnTarget


@method
class MH(Metropolis):
    """One token from its conditional, accepted or not.

        w ~ g = q_i(. | x_{-i});   x' = x with w at i
        accept with  min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w))

    One masked pass gives both densities, and the state caches its output: a proposal of the
    current token costs nothing, another one at most S - 1 passes for the energy's other terms. At
    temperatures 1 the terms of site i cancel. pi-reversible for each site, hence for a random
    scan; fixed and permuted sweeps are pi-invariant.

    >>> kernel = unmask.MH(scan="fixed")
    >>> run = unmask.sample("A [MASK] [MASK] sat.", kernel=kernel, chains=2, sweeps=1)
    >>> run.settings.kernel.name, len(run.to_frame())
    ('mh', 2)
    """

    name = "mh"
    label = "Metropolis-Hastings"
    colour = "#0072B2"
    place = 1
    step_passes = "0 for the token that is there, else up to T - 1"

    def propose(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]
    ) -> Proposed:
        """A token from the cached output at one site; no pass."""
        rows = state.rows
        site = sites[:, 0]
        current = state.ids[rows, on.target.free_positions[site]]
        outputs = state.outputs_at(rows, site)
        proposals = on.passes.categoricals(
            outputs, on.target, self.proposal_temperature, site, current
        )
        drawn = rng.tokens(rows, proposals)
        return Proposed(
            tokens=drawn.tokens.unsqueeze(1),
            log_ratio=drawn.current_log_density - drawn.log_density,  # the way back minus there
            passes=torch.zeros_like(rows),
            own_terms=on.terms_of_draw(drawn, outputs),
        )
