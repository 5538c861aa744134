"""Metropolis-Hastings (Goyal, Dyer & Berg-Kirkpatrick 2022): proposals, their acceptance, and
early rejection.

A kernel's `propose` returns tokens for the redrawn sites and the log-ratio of its densities,
log g(x | x') - log g(x' | x), the way back minus the way there. A proposal x' that was drawn
with density g(x' | x) is accepted with probability

    alpha(x -> x') = min(1, exp((E(x) - E(x')) / T) g(x | x') / g(x' | x)),

that is, when log u < log alpha for a u that is uniform on (0, 1): `log_acceptance`. The chain
then leaves exp(-E / T) invariant.

Early rejection draws u first. The norm energy's terms are >= 0, so E(x') is at least the sum of
the terms known so far: once that sum alone is beyond what u allows, the rest need not be
computed. The decisions are those of `log_acceptance`, one by one. Terms that are large in the
current text, or near the redrawn sites, come first.

`MetropolisHastings` redraws a single site i from its conditional:

    w ~ g = q_i(. | x_{-i});   accept with min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w)),
            x' = x with w at i

One masked pass gives both densities, and the state caches its output: a proposal of the current
token costs nothing, another one at most S - 1 passes for the energy's other terms. At
temperatures 1 the terms of site i cancel. pi-reversible for each site, hence for a random scan;
fixed and permuted sweeps are pi-invariant.

Blocks are several tokens at once, B a block that is chosen without looking at the values.
`ProductBlock` masks it at once:

    x'_b ~ q_b(. | x_{-B}) for each b in B;
    accept with min(1, exp((E(x) - E(x')) / T) prod_b q_b(x_b | x_{-B}) / q_b(x'_b | x_{-B}))

The reverse density runs over the same B, whichever tokens changed. One pass gives all
densities; a novel proposal costs the energy's S terms besides (S - 1 if one token changed).

`SequentialBlock` keeps the dependence inside the block, which a product destroys:

    for b_1 ... b_k, the block in an order that does not look at the values:
        x'_{b_j} ~ q(. | x_{-B}, x'_{b_1} ... x'_{b_{j-1}}; the rest of the block masked)
    g(x' | x) = prod_j q(x'_{b_j} | x_{-B}, x'_{b_<j}),
            g(x | x') = prod_j q(x_{b_j} | x_{-B}, x_{b_<j})   in the same order

The last factor of each direction masks one position alone: for x it is in the tables already,
for x' it is a pass that the energy needs anyway. A pair therefore costs what a product proposal
costs; k tokens cost 2k - 3 passes besides the energy's.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling import registry
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState, Kernel, StepInfo
from unmask.sampling.target import Target

COLUMNS_PER_ROUND: dict[str, tuple[int, ...]] = {"cpu": (2,), "cuda": (2, 2, 4, 8)}
"""Columns of each undecided chain that the rounds of early rejection compute, the last number
from then on: a GPU is given larger rounds as fewer chains are left, since it waits for each."""
NEARNESS = (
    2.0  # How much more a neighbour's term is worth looking at than one far away, of the same size
)
# A partial sum decides only when it is beyond the bound by more than the order of summation can
# move it
SLACK = 1e-9


def log_acceptance(
    energy: Float[Tensor, " m"],
    new_energy: Float[Tensor, " m"],
    temperature: Float[Tensor, " m"] | float = 1.0,
    log_ratio: Float[Tensor, " m"] | float = 0.0,
) -> Float[Tensor, " m"]:
    """log alpha(x -> x') of each chain: accept where log u lies below it.

    energy, new_energy   E(x) and E(x')
    log_ratio            log g(x | x') - log g(x' | x): the way back minus the way there; 0 for
                         symmetric proposals
    """
    return ((energy - new_energy) / temperature + log_ratio).clamp(max=0)


class Decision(NamedTuple):
    """Which proposals were accepted, and the passes that each decision asked for."""

    accepted: Bool[Tensor, " m"]
    passes: Int[Tensor, " m"]


@dataclass(frozen=True)
class Acceptance:
    """Decides about proposals with as few passes as the decision needs; `early`: early
    rejection, of the norm energy only.
    """

    target: Target
    passes: Passes
    temperature: float = 1.0
    early: bool = True

    def decide(
        self,
        state: ChainState,
        rows: Int[Tensor, " m"],
        new: ChainState,
        log_ratio: Float[Tensor, " m"],
        sites: Int[Tensor, "m k"],
        rng: Randomness,
    ) -> Decision:
        """Whether the chains `rows` of `state` go to the texts `new`, whose columns are
        computed as far as that needs.

        new         the proposed texts, one for each of `rows`; `fresh` columns are known already
        log_ratio   as in `log_acceptance`
        sites       the redrawn sites of each of `rows`
        """
        log_u = rng.log_uniform(rows)
        old_terms = state.terms[rows]
        energy = old_terms.sum(-1) + state.user[rows]
        columns = torch.arange(self.target.columns, device=sites.device)
        distance = (columns - self.target.free[sites].unsqueeze(-1)).abs().amin(1).clamp(min=1)
        promise = (old_terms + 0.3) * (1 + NEARNESS / distance)
        bound = energy + self.temperature * (
            log_ratio - log_u
        )  # log u < log alpha, solved for E(x')
        alive, spent = self._evaluate(new, bound, promise, log_ratio > -torch.inf)
        new_energy = torch.where(alive.unsqueeze(1), new.terms, 0.0).sum(-1) + new.user
        return Decision(
            alive & (log_u < log_acceptance(energy, new_energy, self.temperature, log_ratio)), spent
        )

    def _evaluate(
        self,
        new: ChainState,
        bound: Float[Tensor, " m"],
        promise: Float[Tensor, "m S"],
        alive: Bool[Tensor, " m"],
    ) -> tuple[Bool[Tensor, " m"], Int[Tensor, " m"]]:
        """Compute the unknown terms of the chains `alive`; which of them no partial sum has
        rejected.

        promise   the order in which early rejection looks at the terms, the largest first
        """
        early = self.early and self.target.energy.kind == "norm"
        ceiling = bound + SLACK * (1 + bound.abs())
        spent = torch.zeros(len(alive), dtype=torch.long, device=alive.device)
        sizes = COLUMNS_PER_ROUND[alive.device.type]
        for number in count():
            if early:
                alive = alive & (
                    torch.where(new.fresh, new.terms, 0.0).sum(-1) + new.user <= ceiling
                )
            wanted = ~new.fresh & alive.unsqueeze(1)
            if early:
                size = sizes[min(number, len(sizes) - 1)]
                wanted &= _largest(torch.where(wanted, promise, -torch.inf), size)
            row, column = wanted.nonzero(as_tuple=True)
            if not len(row):
                break
            new.look_up(self.target, self.passes, row, column)
            spent += wanted.sum(-1)
        return alive, spent


def _largest(values: Float[Tensor, "m S"], k: int) -> Bool[Tensor, "m S"]:
    """Marks the k largest values of each row."""
    best = values.topk(min(k, values.shape[1]), dim=-1).indices
    return torch.zeros(values.shape, dtype=torch.bool, device=values.device).scatter(1, best, True)


class LastSite(NamedTuple):
    """The last proposed site, masked alone in the new text, for the chains for which its output
    is `known`.

    outputs   the network's outputs there;   terms   the energy's terms of the proposed tokens
    """

    known: Bool[Tensor, " n"]
    outputs: Float[Tensor, "n W"]
    terms: Float[Tensor, " n"]


class Proposed(NamedTuple):
    """The proposals of a kernel, one for each chain.

    tokens      for the redrawn sites
    log_ratio   log g(x | x') - log g(x' | x)
    passes      passes that the proposal took
    own_terms   the energy's terms of the proposed tokens, where a single site is redrawn, whose
                conditional stays the same
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

    options: registry.MH = registry.MH()

    @abstractmethod
    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the sites `sites` of each chain, and the log-ratio of the densities of the
        two ways.
        """

    @cached_property
    def acceptance(self) -> Acceptance:
        """The rule that accepts or rejects proposals."""
        return Acceptance(self.target, self.passes, self.options.energy_temperature)

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The whole energy of each text: S passes per chain."""
        state = ChainState.at(self.target, ids)
        return state, state.complete(self.target, self.passes)

    def step(
        self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> tuple[ChainState, StepInfo]:
        """Propose, decide, and move the chains whose proposal is accepted. Redrawing the
        current tokens is accepted.
        """
        move = self.propose(state, rng, sites)
        proposed = move.tokens != state.ids.gather(1, self.target.free_positions[sites])
        novel = proposed.any(1).nonzero().squeeze(1)
        new = self._texts(state, novel, sites[novel], move)
        decision = self.acceptance.decide(
            state, novel, new, move.log_ratio[novel], sites[novel], rng
        )
        taken = decision.accepted.nonzero().squeeze(1)
        state.put(novel[taken], new, taken)
        accepted = torch.ones(len(sites), dtype=torch.bool, device=sites.device)
        accepted[novel] = decision.accepted
        passes = move.passes.clone()
        passes[novel] += decision.passes
        return state, StepInfo(sites, accepted, proposed, proposed & accepted.unsqueeze(1), passes)

    def _texts(
        self, state: ChainState, rows: Int[Tensor, " m"], sites: Int[Tensor, "m k"], move: Proposed
    ) -> ChainState:
        """The proposed texts, with what is known about them for free: a token that changes
        alone keeps its context, hence its conditional, and its term is read there."""
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
        elif new.outputs is not None:
            changed = new.ids[:, target.positions] != before[:, target.positions]
            alone = known & changed & (changed.sum(-1, keepdim=True) == 1)
            row, column = alone.nonzero(as_tuple=True)
            logits = self.passes.logits_of(new.outputs[row, target.site_of_column[column]])
            new.terms[row, column] = target.energy.term(
                logits, new.ids[row, target.positions[column]]
            )
            new.fresh = alone
        if move.last is not None:
            known, outputs, terms = (value[rows] for value in move.last)
            row = known.nonzero().squeeze(1)
            site = sites[row, -1]
            new.terms[row, target.free[site]] = terms[row]
            new.fresh[row, target.free[site]] = torch.ones_like(row, dtype=torch.bool)
            if new.outputs is not None:
                new.outputs[row, site] = outputs[row]
        return new


@dataclass(frozen=True)
class MetropolisHastings(MetropolisKernel):
    """One site per step, proposed from its conditional."""

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> Proposed:
        """A token from the cached output at one site; no pass."""
        rows, site = state.rows, sites[:, 0]
        current = state.ids[rows, self.target.free_positions[site]]
        outputs = state.outputs_at(rows, site)
        drawn = rng.tokens(
            rows,
            self.passes.categoricals(
                outputs, self.target, self.options.proposal_temperature, site, current
            ),
        )
        log_ratio, terms = (
            drawn.current_log_density - drawn.log_density,
            self.target.energy.term_of(drawn),
        )
        return Proposed(
            drawn.tokens.unsqueeze(1), log_ratio, torch.zeros_like(rows), own_terms=terms
        )


@dataclass(frozen=True)
class ProductBlock(MetropolisKernel):
    """The block's tokens are proposed independently of each other."""

    options: registry.Block = registry.Block()

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for all of the block at once; one pass per chain."""
        rows, positions, (n, k) = state.rows, self.target.free_positions[sites], sites.shape
        masked = state.ids.scatter(1, positions, self.target.model.mask_id)
        outputs = self.passes.outputs(masked, positions).flatten(0, 1)
        current = state.ids.gather(1, positions).flatten()
        places = torch.arange(k, device=sites.device).repeat(n)
        distributions = self.passes.categoricals(
            outputs, self.target, self.options.proposal_temperature, sites.flatten(), current
        )
        drawn = rng.tokens(rows.repeat_interleave(k), distributions, places)
        log_ratio = (drawn.current_log_density - drawn.log_density).reshape(n, k).sum(1)
        return Proposed(drawn.tokens.reshape(n, k), log_ratio, torch.ones_like(rows))


@dataclass(frozen=True)
class SequentialBlock(MetropolisKernel):
    """The block's tokens are proposed one after the other, in the order of `sites`."""

    options: registry.SequentialBlock = registry.SequentialBlock()

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]) -> Proposed:
        """Tokens for the block, each given those before it; while they are the current ones,
        both directions share passes.
        """
        rows, k, target = state.rows, sites.shape[1], self.target
        positions = target.free_positions[sites]
        current = state.ids.gather(1, positions)
        drawn, log_ratio = current.clone(), torch.zeros_like(state.user)
        passes = torch.zeros_like(rows)
        same = torch.ones_like(rows, dtype=torch.bool)

        def predict(
            values: Int[Tensor, "n k"], j: int, chains: Int[Tensor, " m"]
        ) -> Float[Tensor, "m W"]:
            """The output at the block's j-th position given values[:, :j], the rest of the
            block masked.
            """
            filled = torch.full_like(values[chains], target.model.mask_id)
            filled[:, :j] = values[chains, :j]
            ids = state.ids[chains].scatter(1, positions[chains], filled)
            return self.passes.outputs(ids, positions[chains, j : j + 1])[:, 0]

        def where_apart(
            shared: Float[Tensor, "n W"], values: Int[Tensor, "n k"], j: int
        ) -> Float[Tensor, "n W"]:
            """`shared`, except `predict` for the chains whose two directions differ by now."""
            apart = (~same).nonzero().squeeze(1)
            return shared.index_copy(0, apart, predict(values, j, apart)) if len(apart) else shared

        for j in range(k):
            site, same_before = sites[:, j], same
            if j < k - 1:
                forward = predict(drawn, j, rows)
                backward = where_apart(forward, current, j)
                passes += 1 + (~same).long()
            else:
                backward = state.outputs_at(rows, site)
                forward = where_apart(backward, drawn, j)
                passes += (~same).long()
            there = self.passes.categoricals(
                forward, target, self.options.proposal_temperature, site, current[:, j]
            )
            back = self.passes.categoricals(
                backward, target, self.options.proposal_temperature, site, current[:, j]
            )
            token = rng.tokens(rows, there)
            drawn[:, j] = token.tokens
            log_ratio += back.at(current[:, j]).log_density - token.log_density
            same = same & (token.tokens == current[:, j])
        return Proposed(
            drawn,
            log_ratio,
            passes,
            last=LastSite(~same_before, forward, target.energy.term_of(token)),
        )
