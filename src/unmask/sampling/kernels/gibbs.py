"""Pseudo-Gibbs: redraw a position from its conditional and always accept.

    x_i ~ q_i(. | x_{-i})

With the conditionals of one joint this is Gibbs sampling of that joint. A masked language model's conditionals are in
general those of no joint: the chain then has a law of its own, which depends on the order of the updates and is neither
exp(-E_raw) nor exp(-E_norm). One pass an update, none if no other token changed since the last look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo, empty_state, look_up
from unmask.sampling.target import Target


@dataclass(frozen=True)
class PseudoGibbs:
    """Always accepts. The energy of its states is known only where their columns happen to be fresh."""

    target: Target
    passes: Passes
    proposal: Proposal = field(default_factory=Proposal)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """No pass: conditionals are looked up when they are needed."""
        return empty_state(self.target, ids), torch.zeros(len(ids), dtype=torch.long)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> tuple[ChainState, StepInfo]:
        """Redraw one site of each chain."""
        rows, site = torch.arange(len(state.ids)), sites[:, 0]
        column = self.target.free[site]
        stale = ~state.fresh[rows, column]
        look_up(self.target, self.passes, state, rows[stale], column[stale])
        device = state.tables.device
        logits = state.tables[rows.to(device), site.to(device)]
        drawn = rng.categorical(rows, self.proposal.log_weights(logits, self.target.support[site]))
        position = self.target.free_positions[site]
        changed = drawn != state.ids[rows, position]
        state.ids[rows, position] = drawn
        state.fresh[changed] = False
        state.fresh[rows, column] = True
        state.terms[rows, column] = self.target.energy.term(logits, drawn)
        state.user.copy_(self.target.energy.from_user(state.ids))
        moved = changed.unsqueeze(1)
        info = StepInfo(sites, torch.ones(len(rows), dtype=torch.bool), moved, moved, stale.long())
        return state._replace(steps=state.steps + 1), info
