"""Metropolis-Hastings kernels (Goyal, Dyer & Berg-Kirkpatrick 2022).

Every kernel here proposes and leaves the decision to `acceptance`: its `propose` returns tokens for the redrawn sites and the
log-ratio of its densities, log g(x | x') - log g(x' | x), the way back minus the way there.

`MetropolisHastings` redraws a single site i from its conditional:

    w ~ g = q_i(. | x_{-i});   accept with min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w)),   x' = x with w at i

One masked pass gives both densities, and it is kept with the state: a proposal of the current token costs nothing,
another one at most S - 1 passes for the energy's other terms. At temperatures 1 the terms of site i cancel.
pi-reversible for each site, hence for a random scan; fixed and permuted sweeps are pi-invariant.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.acceptance import Acceptance
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo


class LastSite(NamedTuple):
    """The conditional of the last proposed site, masked alone in the new text, for the chains for which it is `known`.

    kept    as the state keeps it;   terms   the energy's terms of the proposed tokens there
    """

    known: Bool[Tensor, " n"]
    kept: Float[Tensor, "n W"]
    terms: Float[Tensor, " n"]


class Proposed(NamedTuple):
    """The proposals of a kernel, one for each chain.

    tokens      for the redrawn sites
    log_ratio   log g(x | x') - log g(x' | x)
    passes      passes that the proposal took
    own_terms   the energy's terms of the proposed tokens, where a single site is redrawn, whose conditional stays the same
    last        terms of the new text's energy that the proposal computed
    """

    tokens: Int[Tensor, "n k"]
    log_ratio: Float[Tensor, " n"]
    passes: Int[Tensor, " n"]
    own_terms: Float[Tensor, " n"] | None = None
    last: LastSite | None = None


@dataclass(frozen=True)
class MetropolisKernel(Kernel):
    """A kernel that proposes, and accepts or rejects; `delayed` saves passes (see `Acceptance`)."""

    delayed: tuple[int, ...] = ()

    @abstractmethod
    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the sites `sites` of each chain, and the log-ratio of the densities of the two ways."""

    @cached_property
    def acceptance(self) -> Acceptance:
        """How proposals are decided."""
        return Acceptance(self.target, self.passes, delayed=self.delayed)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """The whole energy of each text: S passes per chain."""
        state = ChainState.at(self.target, ids)
        return state, state.complete(self.target, self.passes)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> StepInfo:
        """Propose, decide, and move the chains whose proposal is accepted. Redrawing the current tokens is accepted."""
        move = self.propose(state, rng, sites)
        proposed = move.tokens != state.ids.gather(1, self.target.free_positions[sites])
        novel = proposed.any(1).nonzero().squeeze(1)
        new = self._texts(state, novel, sites[novel], move)
        decision = self.acceptance.decide(state, novel, new, move.log_ratio[novel], sites[novel], rng)
        taken = decision.accepted.nonzero().squeeze(1)
        state.put(novel[taken], new, taken)
        accepted = torch.ones(len(sites), dtype=torch.bool, device=sites.device)
        accepted[novel] = decision.accepted
        passes = move.passes.clone()
        passes[novel] += decision.passes
        state.steps += 1
        return StepInfo(sites, accepted, proposed, proposed & accepted.unsqueeze(1), passes)

    def _texts(self, state: ChainState, rows: Int[Tensor, " m"], sites: Int[Tensor, "m k"], move: Proposed) -> ChainState:
        """The proposed texts, with what is known about them for free: a token that changes alone keeps its context, hence
        its conditional, and its term is read there."""
        new, target = state.take(rows), self.target
        before, tokens = new.ids, move.tokens[rows]
        new.ids = before.scatter(1, target.free_positions[sites], tokens)
        new.user = target.energy.from_user(new.ids)
        new.terms, known = torch.zeros_like(new.terms), new.fresh
        new.fresh = torch.zeros_like(known)
        if move.own_terms is not None:
            column = target.free[sites]
            new.terms.scatter_(1, column, move.own_terms[rows].unsqueeze(1))
            new.fresh.scatter_(1, column, True)
        elif new.kept is not None:
            changed = new.ids[:, target.positions] != before[:, target.positions]
            alone = known & changed & (changed.sum(-1, keepdim=True) == 1)
            row, column = alone.nonzero(as_tuple=True)
            logits = self.passes.logits_of(new.kept[row, target.site_of_column[column]])
            new.terms[row, column] = target.energy.term(logits, new.ids[row, target.positions[column]])
            new.fresh = alone
        if move.last is not None:
            self._note(new, sites[:, -1], *(value[rows] for value in move.last))
        return new

    def _note(
        self,
        new: ChainState,
        site: Int[Tensor, " m"],
        known: Bool[Tensor, " m"],
        kept: Float[Tensor, "m W"],
        terms: Float[Tensor, " m"],
    ) -> None:
        """Write the term and conditional of the last site into the state of the proposed texts."""
        rows = known.nonzero().squeeze(1)
        column = self.target.free[site[rows]]
        new.terms[rows, column] = terms[rows]
        new.fresh[rows, column] = torch.ones_like(rows, dtype=torch.bool)
        if new.kept is not None:
            new.kept[rows, site[rows]] = kept[rows]


@dataclass(frozen=True)
class MetropolisHastings(MetropolisKernel):
    """One site per step, proposed from its conditional."""

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> Proposed:
        """A token from the kept conditional of one site; one pass if nothing is kept, else none."""
        rows, site = state.rows, sites[:, 0]
        current = state.ids[rows, self.target.free_positions[site]]
        kept = state.conditionals(self.target, self.passes, rows, site)
        drawn = rng.tokens(rows, self.passes.proposals(kept, self.target, self.proposal, site, current))
        return Proposed(
            drawn.tokens.unsqueeze(1),
            drawn.current_log_density - drawn.log_density,
            state.passes_of_a_look(self.passes),
            own_terms=self.target.energy.term_of(drawn),
        )
