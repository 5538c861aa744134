"""Metropolis-Hastings (Goyal, Dyer & Berg-Kirkpatrick 2022): what all kernels that propose share,
acceptance and early rejection.

A proposal x' that was drawn with density g(x' | x) is accepted with probability

    alpha(x -> x') = min(1, exp((E(x) - E(x')) / T) g(x | x') / g(x' | x)),

that is, when log u < log alpha for a u that is uniform on (0, 1): `log_acceptance`. The chain
then leaves exp(-E / T) invariant.

Early rejection draws u first. Where the energy's terms are never negative, as those of the norm
energy, E(x') is at least the sum of the terms known so far: once that sum alone is beyond what u
allows, the rest need not be computed. The decisions are those of `log_acceptance`, one by one.
Terms that are large in the current text, or near the redrawn sites, come first.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, NamedTuple

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.kernels.kernel import HOTTEST, Kernel
from unmask.sampling.kernels.state import ChainState, StepInfo
from unmask.sampling.own_steps import refuse_wrong_proposal

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.engine.passes import Passes
    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import KernelOnTarget
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
    rejection, where the energy's terms are never negative.
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
        early = self.early and self.target.energy.of_model.never_negative
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


@method
class Metropolis(Kernel):
    """A kernel that proposes, and accepts or rejects.

        x' ~ g(. | x);   accept with min(1, exp((E(x) - E(x')) / T) g(x | x') / g(x' | x))

    A subclass says in `propose` which tokens it proposes, and the log-ratio of its two densities.

    Parameters:
        energy_temperature: Of the energy: exp(-E / energy_temperature).
    """

    law = "exp(-E / energy_temperature)"
    verdict = (
        "The chain leaves exp(-E / T) invariant: E the {energy} energy and what was added to it, T"
        " = {energy_temperature:g}."
    )
    uses_terms = True
    energy_temperature: Annotated[float, Interval(gt=0, le=HOTTEST)] = 1.0

    @abstractmethod
    def propose(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> Proposed:
        """Tokens for the sites `sites` of each chain, and the log-ratio of the densities of the
        two ways.
        """

    def acceptance(self, on: KernelOnTarget) -> Acceptance:
        """The rule that accepts or rejects proposals."""
        return Acceptance(on.target, on.passes, self.energy_temperature)

    def log_law(self, on: KernelOnTarget, ids: Int[Tensor, "N T"]) -> Float[Tensor, " N"]:
        """-E(x) / T."""
        state = ChainState.at(on.target, ids)
        state.complete(on.target, on.passes)
        return -state.energy / self.energy_temperature

    def init(
        self, on: KernelOnTarget, ids: Int[Tensor, "n T"]
    ) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The whole energy of each text: S passes per chain."""
        state = ChainState.at(on.target, ids)
        return state, state.complete(on.target, on.passes)

    def step(
        self, on: KernelOnTarget, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> tuple[ChainState, StepInfo]:
        """Propose, decide, and move the chains whose proposal is accepted. Redrawing the
        current tokens is accepted.
        """
        move = self.propose(on, state, rng, sites)
        refuse_wrong_proposal(on, move, sites)
        proposed = move.tokens != state.ids.gather(1, on.target.free_positions[sites])
        novel = proposed.any(1).nonzero().squeeze(1)
        new = _proposed_texts(on, state, novel, sites[novel], move)
        decision = self.acceptance(on).decide(
            state, novel, new, move.log_ratio[novel], sites[novel], rng
        )
        taken = decision.accepted.nonzero().squeeze(1)
        state.put(novel[taken], new, taken)
        accepted = torch.ones(len(sites), dtype=torch.bool, device=sites.device)
        accepted[novel] = decision.accepted
        passes = move.passes.clone()
        passes[novel] += decision.passes
        info = StepInfo(
            sites=sites,
            accepted=accepted,
            proposed=proposed,
            changed=proposed & accepted.unsqueeze(1),
            passes=passes,
        )
        return state, info


def _proposed_texts(
    on: KernelOnTarget,
    state: ChainState,
    rows: Int[Tensor, " m"],
    sites: Int[Tensor, "m k"],
    move: Proposed,
) -> ChainState:
    """The proposed texts, with what is known about them for free: a token that changes alone
    keeps its context, hence its conditional, and its term is read there.
    """
    new = state.take(rows)
    target = on.target
    before = new.ids
    new.ids = before.scatter(1, target.free_positions[sites], move.tokens[rows])
    new.user = target.energy.from_user(new.ids)
    new.terms = torch.zeros_like(new.terms)
    known = new.fresh
    new.fresh = torch.zeros_like(known)
    if move.own_terms is not None:
        column = target.free[sites]
        new.terms.scatter_(1, column, move.own_terms[rows].unsqueeze(1))
        new.fresh.scatter_(1, column, True)
    elif new.outputs is not None:
        changed = new.ids[:, target.positions] != before[:, target.positions]
        changed_alone = changed.sum(-1, keepdim=True) == 1
        alone = known & changed & changed_alone
        row, column = alone.nonzero(as_tuple=True)
        logits = on.passes.logits_of(new.outputs[row, target.site_of_column[column]])
        tokens = new.ids[row, target.positions[column]]
        new.terms[row, column] = target.energy.term(logits, tokens)
        new.fresh = alone
    if move.last is not None:
        is_known, outputs, terms = (value[rows] for value in move.last)
        row = is_known.nonzero().squeeze(1)
        site = sites[row, -1]
        new.terms[row, target.free[site]] = terms[row]
        new.fresh[row, target.free[site]] = torch.ones_like(row, dtype=torch.bool)
        if new.outputs is not None:
            new.outputs[row, site] = outputs[row]
    return new
