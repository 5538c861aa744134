"""What all Metropolis-Hastings kernels share: target, savings, the start, and the report of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.metropolis_rule import MetropolisRule, proposed_state
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo, complete, empty_state
from unmask.sampling.target import Target


@dataclass(frozen=True)
class MetropolisKernel:
    """Settings of a kernel that accepts or rejects; `early` and `delayed` save passes (see `MetropolisRule`)."""

    target: Target
    passes: Passes
    proposal: Proposal = field(default_factory=Proposal)
    early: bool = True
    delayed: tuple[int, ...] = ()

    @cached_property
    def rule(self) -> MetropolisRule:
        """How proposals are accepted."""
        return MetropolisRule(self.target, self.passes, self.early, self.delayed)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """S passes a chain."""
        return complete(self.target, self.passes, empty_state(self.target, ids))

    def changed_texts(
        self, state: ChainState, sites: Int[Tensor, "n k"], drawn: Int[Tensor, "n k"]
    ) -> tuple[Int[Tensor, " m"], ChainState]:
        """The chains whose proposal differs from where they are, and the proposed texts."""
        positions = self.target.free_positions[sites]
        novel = (drawn != state.ids.gather(1, positions)).any(1).nonzero().squeeze(1)
        ids = state.ids[novel].scatter(1, positions[novel], drawn[novel])
        return novel, proposed_state(self.target, state, novel, ids)

    def settle(
        self,
        state: ChainState,
        rng: Randomness,
        sites: Int[Tensor, "n k"],
        novel: Int[Tensor, " m"],
        new: ChainState,
        log_ratio: Float[Tensor, " n"],
        passes: Int[Tensor, " n"],
    ) -> tuple[ChainState, StepInfo]:
        """Accept or reject the texts `new` of the chains `novel`; the others redrew what was there."""
        positions = self.target.free_positions[sites]
        proposed = torch.zeros(sites.shape, dtype=torch.bool)
        proposed[novel] = new.ids.gather(1, positions[novel]) != state.ids[novel].gather(1, positions[novel])
        decided, spent = self.rule.decide(state, novel, new, log_ratio[novel], sites[novel], rng)
        accepted: Bool[Tensor, " n"] = torch.ones(len(sites), dtype=torch.bool)
        accepted[novel] = decided
        total = passes.clone()
        total[novel] += spent
        info = StepInfo(sites, accepted, proposed, proposed & accepted.unsqueeze(1), total)
        return state._replace(steps=state.steps + 1), info
