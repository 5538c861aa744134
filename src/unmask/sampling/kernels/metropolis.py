"""Metropolis-Hastings kernels (Goyal, Dyer & Berg-Kirkpatrick 2022).

Every kernel here proposes and leaves the decision to `acceptance`: its `propose` returns tokens for the redrawn sites and the
log-ratio of its densities, log g(x | x') - log g(x' | x), the way back minus the way there.

`MetropolisHastings` redraws a single site i from its conditional:

    w ~ g = q_i(. | x_{-i});   accept with min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w)),   x' = x with w at i

One masked pass gives both densities, and it is kept with the state: a proposal of the token that is there costs nothing,
another one at most S - 1 passes for the energy's other terms. At temperatures 1 the terms of site i cancel.
pi-reversible for each site, hence for a random scan; fixed and permuted sweeps are pi-invariant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.acceptance import Acceptance
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo
from unmask.sampling.target import Target


class LastSite(NamedTuple):
    """Logits of the last proposed site, masked alone in the new text, for the chains for which they are `known`."""

    known: Bool[Tensor, " n"]
    logits: Float[Tensor, "n V"]


class Proposed(NamedTuple):
    """What a kernel proposes to each chain.

    tokens      for the redrawn sites
    log_ratio   log g(x | x') - log g(x' | x)
    passes      passes that the proposal took
    last        what it learnt on the way about the energy of the new text
    """

    tokens: Int[Tensor, "n k"]
    log_ratio: Float[Tensor, " n"]
    passes: Int[Tensor, " n"]
    last: LastSite | None = None


@dataclass(frozen=True)
class MetropolisKernel(ABC):
    """A kernel that proposes, and accepts or rejects; `early` and `delayed` save passes (see `Acceptance`)."""

    target: Target
    passes: Passes
    proposal: Proposal = field(default_factory=Proposal)
    early: bool = True
    delayed: tuple[int, ...] = ()

    @abstractmethod
    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the sites `sites` of each chain, and the log-ratio of the densities of the two ways."""

    @cached_property
    def acceptance(self) -> Acceptance:
        """How proposals are decided."""
        return Acceptance(self.target, self.passes, self.early, self.delayed)

    @property
    def replicas(self) -> int:
        """One row of the state per chain."""
        return 1

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """The whole energy of each text: S passes per chain."""
        state = ChainState.at(self.target, ids)
        return state, state.complete(self.target, self.passes)

    def sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """Every row is a sample."""
        return state.rows

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> StepInfo:
        """Propose, decide, and move the chains whose proposal is accepted. Redrawing the tokens that are there is accepted."""
        move = self.propose(state, rng, sites)
        positions = self.target.free_positions[sites]
        proposed = move.tokens != state.ids.gather(1, positions)
        novel = proposed.any(1).nonzero().squeeze(1)
        new = self._texts(state, novel, positions[novel], move.tokens[novel])
        if move.last is not None:
            self._note(new, sites[novel, -1], move.tokens[novel, -1], move.last.known[novel], move.last.logits[novel])
        decision = self.acceptance.decide(state, novel, new, move.log_ratio[novel], sites[novel], rng)
        taken = decision.accepted.nonzero().squeeze(1)
        state.put(novel[taken], new, taken)
        accepted = torch.ones(len(sites), dtype=torch.bool, device=sites.device)
        accepted[novel] = decision.accepted
        passes = move.passes.clone()
        passes[novel] += decision.passes
        state.steps += 1
        return StepInfo(sites, accepted, proposed, proposed & accepted.unsqueeze(1), passes)

    def _texts(
        self, state: ChainState, rows: Int[Tensor, " m"], positions: Int[Tensor, "m k"], tokens: Int[Tensor, "m k"]
    ) -> ChainState:
        """The proposed texts, with what is known about them for free: a token that changes alone keeps its context, hence
        its table, and its term is read there."""
        new, target = state.take(rows), self.target
        before = new.ids
        new.ids = before.scatter(1, positions, tokens)
        changed = new.ids[:, target.positions] != before[:, target.positions]
        alone = changed & (changed.sum(-1, keepdim=True) == 1)
        row, column = alone.nonzero(as_tuple=True)
        new.terms = torch.zeros_like(new.terms)
        new.fresh = new.fresh & alone
        logits = new.tables[row, target.site_of_column[column]]
        new.terms[row, column] = target.energy.term(logits, new.ids[row, target.positions[column]])
        new.user = target.energy.from_user(new.ids)
        return new

    def _note(
        self,
        new: ChainState,
        site: Int[Tensor, " m"],
        token: Int[Tensor, " m"],
        known: Bool[Tensor, " m"],
        logits: Float[Tensor, "m V"],
    ) -> None:
        """Write logits that the proposal computed into the state of the proposed texts."""
        rows = known.nonzero().squeeze(1)
        column = self.target.free[site[rows]]
        new.tables[rows, site[rows]] = logits[rows]
        new.terms[rows, column] = self.target.energy.term(logits[rows], token[rows])
        new.fresh[rows, column] = True


@dataclass(frozen=True)
class MetropolisHastings(MetropolisKernel):
    """One site per step, proposed from its conditional."""

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> Proposed:
        """A token from the kept conditional of one site; no pass."""
        rows, site = state.rows, sites[:, 0]
        log_weights = self.proposal.log_weights(state.tables[rows, site], self.target.support[site])
        drawn = rng.categorical(rows, log_weights)
        current = state.ids[rows, self.target.free_positions[site]]
        log_ratio = log_weights[rows, current] - log_weights[rows, drawn]
        return Proposed(drawn.unsqueeze(1), log_ratio, torch.zeros_like(site))
