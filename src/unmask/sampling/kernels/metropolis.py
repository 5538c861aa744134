"""Metropolis-Hastings kernels (Goyal, Dyer & Berg-Kirkpatrick 2022).

Every kernel here proposes and leaves the decision to `acceptance`: its `propose` returns tokens for the redrawn sites and the
log-ratio of its densities, log g(x | x') - log g(x' | x), the way back minus the way there.

`MetropolisHastings` redraws a single site i from its conditional:

    w ~ g = q_i(. | x_{-i});   accept with min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w)),   x' = x with w at i

One masked pass gives both densities, and it is kept with the state: a proposal of the current token costs nothing,
another one at most S - 1 passes for the energy's other terms. At temperatures 1 the terms of site i cancel.
pi-reversible for each site, hence for a random scan; fixed and permuted sweeps are pi-invariant.

`Annealing` is optimisation, not sampling:

    step s of S runs Metropolis-Hastings at temperature T_s = hot (cold / hot)^(s / (S - 1))

The law of the chain changes all the time, so its texts are samples of nothing; it looks for texts of low energy.

`ParallelTempering` runs each chain as a ladder of replicas at rising temperatures, and neighbours may swap.

    target of a ladder   prod_r exp(-E(x_r) / T_r),   T_1 < T_2 < ... the first is the chain that is sampled
    swap of r, r + 1     accepted with min(1, exp((1/T_r - 1/T_{r+1}) (E(x_r) - E(x_{r+1}))))

Swaps cost no pass: energies are known, and it is the temperatures that change hands, not the texts. After each step, the
neighbours (1,2), (3,4), ... or (2,3), (4,5), ... try to swap, either with probability 1/2.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling import registry
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
    """A kernel that proposes, and accepts or rejects."""

    options: registry.Metropolis = registry.MH()

    @abstractmethod
    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the sites `sites` of each chain, and the log-ratio of the densities of the two ways."""

    @cached_property
    def acceptance(self) -> Acceptance:
        """How proposals are decided."""
        return Acceptance(self.target, self.passes, delayed=self.options.delayed)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """The whole energy of each text: S passes per chain."""
        state = ChainState.at(self.target, ids, self.options.sampled_temperature)
        return state, state.complete(self.target, self.passes)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> tuple[ChainState, StepInfo]:
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
        return state, StepInfo(sites, accepted, proposed, proposed & accepted.unsqueeze(1), passes)

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
            known, kept, terms = (value[rows] for value in move.last)
            row = known.nonzero().squeeze(1)
            site = sites[row, -1]
            new.terms[row, target.free[site]] = terms[row]
            new.fresh[row, target.free[site]] = torch.ones_like(row, dtype=torch.bool)
            if new.kept is not None:
                new.kept[row, site] = kept[row]
        return new


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


@dataclass(frozen=True)
class Annealing(MetropolisHastings):
    """From temperature `hot` down to `cold` over `sweeps` sweeps of all sites, and at `cold` from then on."""

    options: registry.Annealing = registry.Annealing()

    def temperature(self, step: int) -> float:
        """Of step `step`, counted from 0."""
        hot, cold = self.options.hot, self.options.cold
        share = min(1.0, step / max(1, self.sweeps * self.target.sites - 1))
        return float(hot * (cold / hot) ** share)

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> tuple[ChainState, StepInfo]:
        """A step of Metropolis-Hastings at this step's temperature."""
        state.temperature.fill_(self.temperature(state.steps))
        return super().step(state, rng, sites)


@dataclass(frozen=True)
class ParallelTempering(MetropolisHastings):
    """Rows c R ... c R + R - 1 of the state are the R replicas of chain c, one per temperature of the `ladder`."""

    options: registry.Tempering = registry.Tempering()

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " r"]]:
        """Every replica of a chain starts at its text."""
        state, passes = super().init(ids.repeat_interleave(self.options.replicas, 0))
        state.temperature = torch.tensor(self.options.ladder, dtype=torch.float64, device=self.target.device).repeat(len(ids))
        return state, passes

    def sampled(self, state: ChainState) -> Int[Tensor, " n"]:
        """The rows at the first temperature, one per chain."""
        return self._ranked(state)[:, 0]

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "r 1"]) -> tuple[ChainState, StepInfo]:
        """A step of every replica, then swaps."""
        state, info = super().step(state, rng, sites)
        return state, info._replace(swaps=self.swap(state, rng))

    def swap(self, state: ChainState, rng: Randomness) -> Int[Tensor, "2 R"]:
        """Try one set of neighbouring swaps in every ladder; how many were tried and accepted at each rung."""
        ranked, rungs = self._ranked(state), self.options.replicas - 1
        counts = torch.zeros((2, rungs), dtype=torch.long, device=ranked.device)
        odd = rng.integers(ranked[:, 0], 2)
        energy = state.energy
        for rank in range(rungs):
            tried, low, high = odd == rank % 2, ranked[:, rank], ranked[:, rank + 1]
            cold, hot = state.temperature[low], state.temperature[high]
            swapped = tried & (rng.log_uniform(low) < (1 / cold - 1 / hot) * (energy[low] - energy[high]))
            state.temperature[low], state.temperature[high] = torch.where(swapped, hot, cold), torch.where(swapped, cold, hot)
            counts[0, rank], counts[1, rank] = tried.sum(), swapped.sum()
        return counts

    def _ranked(self, state: ChainState) -> Int[Tensor, "n R"]:
        """Rows of each ladder in rising temperature."""
        ladder = state.temperature.reshape(-1, self.options.replicas)
        first = torch.arange(len(ladder), device=ladder.device).unsqueeze(1) * self.options.replicas
        return ladder.argsort(1) + first
