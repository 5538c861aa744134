"""Pseudo-Gibbs: redraw a position from its conditional and always accept.

    x_i ~ q_i(. | x_{-i})

With the conditionals of one joint this is Gibbs sampling of that joint. A masked language model's conditionals are in
general those of no joint: the chain then has a law of its own, which depends on the order of the updates and is neither
exp(-E_raw) nor exp(-E_norm). One pass per update, none if no other token changed since the last look.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo
from unmask.sampling.registry import Gibbs, Markov


@dataclass(frozen=True)
class PseudoGibbs(Kernel):
    """Always accepts. The energy of its states is known only where their columns happen to be fresh."""

    options: Markov = Gibbs()

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """No pass: conditionals are looked up when they are needed."""
        return ChainState.at(self.target, ids), torch.zeros(len(ids), dtype=torch.long, device=self.target.device)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> tuple[ChainState, StepInfo]:
        """Redraw one site of each chain."""
        rows, site = state.rows, sites[:, 0]
        column, position = self.target.free[site], self.target.free_positions[site]
        passes = state.passes_of_a_look(self.passes)
        if self.passes.keeps != "nothing":
            stale = ~state.fresh[rows, column]
            passes, unknown = stale.long(), stale.nonzero().squeeze(1)
            state.look(self.target, self.passes, unknown, site[unknown])
        current = state.ids[rows, position]
        kept = state.conditionals(self.target, self.passes, rows, site)
        drawn = rng.tokens(rows, self.passes.proposals(kept, self.target, self.proposal, site, current))
        changed = (drawn.tokens != current).unsqueeze(1)
        state.ids[rows, position] = drawn.tokens
        state.fresh &= ~changed
        state.fresh.scatter_(1, column.unsqueeze(1), True)
        state.terms[rows, column] = self.target.energy.term_of(drawn)
        state.user = self.target.energy.from_user(state.ids)
        state.steps += 1
        return state, StepInfo(sites, torch.ones_like(changed[:, 0]), changed, changed, passes)
