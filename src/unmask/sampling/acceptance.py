"""The Metropolis-Hastings acceptance, and two layers on it that save passes.

A proposal x' that was drawn with density g(x' | x) is accepted with probability

    alpha(x -> x') = min(1, exp((E(x) - E(x')) / T) g(x | x') / g(x' | x)),

that is, when log u < log alpha for a u that is uniform on (0, 1): `log_acceptance`. The chain then leaves exp(-E / T) invariant.

early rejection      u is drawn first. The norm energy's terms are >= 0, so E(x') is at least the sum of the terms known so
                     far: once that sum alone is beyond what u allows, the rest need not be computed. The decisions are those of
                     `log_acceptance`, one by one. Terms that are large in the current text, or near the redrawn sites, come
                     first.
delayed acceptance   split E = E_1 + E_2 + ... by distance from the redrawn sites and accept in stages, each by
                     `log_acceptance` of its own part with a u of its own; the first stage has the ratio of the densities. A
                     proposal that the first stage rejects costs only the near terms. Each stage's ratio is inverted when x and
                     x' change places, so the product of the stages' probabilities balances pi as alpha does (Christen & Fox
                     2005). The chain is another one, which accepts less often. Distances do not look at the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.target import Target

COLUMNS_PER_ROUND = {"cpu": (2,), "cuda": (2, 2, 4, 8)}
"""Columns of each undecided chain that the rounds of early rejection compute, the last number from then on: a GPU is given
larger rounds as fewer chains are left, since it waits for each."""
NEARNESS = 2.0
"""How much more a neighbour's term is worth looking at than one far away, of the same size."""
SLACK = 1e-9
"""A partial sum decides only when it is beyond the bound by more than the order of summation can move it."""


def log_acceptance(
    energy: Float[Tensor, " m"],
    new_energy: Float[Tensor, " m"],
    temperature: Float[Tensor, " m"] | float = 1.0,
    log_ratio: Float[Tensor, " m"] | float = 0.0,
) -> Float[Tensor, " m"]:
    """log alpha(x -> x') of each chain: accept where log u lies below it.

    energy, new_energy   E(x) and E(x')
    log_ratio            log g(x | x') - log g(x' | x): the way back minus the way there; 0 for symmetric proposals
    """
    return ((energy - new_energy) / temperature + log_ratio).clamp(max=0)


def energy_allowed(
    energy: Float[Tensor, " m"],
    temperature: Float[Tensor, " m"] | float,
    log_ratio: Float[Tensor, " m"] | float,
    log_u: Float[Tensor, " m"],
) -> Float[Tensor, " m"]:
    """log u < log alpha, solved for E(x'): the energy that the new text must stay below."""
    return energy + temperature * (log_ratio - log_u)


class Decision(NamedTuple):
    """Which proposals were accepted, and the passes that each decision asked for."""

    accepted: Bool[Tensor, " m"]
    passes: Int[Tensor, " m"]


@dataclass(frozen=True)
class Acceptance:
    """Decides about proposals with as few passes as the decision needs.

    early     early rejection; it acts on the norm energy only
    delayed   rising distances that end the stages of delayed acceptance; (1, 3) makes three: up to 1, up to 3, the rest
    """

    target: Target
    passes: Passes
    early: bool = True
    delayed: tuple[int, ...] = ()

    def decide(
        self,
        state: ChainState,
        rows: Int[Tensor, " m"],
        new: ChainState,
        log_ratio: Float[Tensor, " m"],
        sites: Int[Tensor, "m k"],
        rng: Randomness,
    ) -> Decision:
        """Whether the chains `rows` of `state` go to the texts `new`, whose columns are computed as far as that needs.

        new         the proposed texts, one for each of `rows`; `fresh` columns are known already
        log_ratio   as in `log_acceptance`
        sites       the redrawn sites of each of `rows`
        """
        stages = self.stages(sites)
        log_u = torch.stack([rng.log_uniform(rows) for _ in stages])
        old_terms, temperature = state.terms[rows], state.temperature[rows]
        distance = self._distance(sites).clamp(min=1)
        promise = (old_terms + 0.3) * (1 + NEARNESS / distance)
        alive = log_ratio > -torch.inf
        spent = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        for number, columns in enumerate(stages):
            first = number == 0
            ratio = log_ratio if first else torch.zeros_like(log_ratio)
            old = (old_terms * columns).sum(-1) + (state.user[rows] if first else 0.0)
            apart = new.user if first else torch.zeros_like(new.user)
            bound = energy_allowed(old, temperature, ratio, log_u[number])
            alive, passes = self._evaluate(new, columns, apart, bound, promise, alive)
            spent += passes
            part = torch.where(columns & alive.unsqueeze(1), new.terms, 0.0).sum(-1) + apart
            alive = alive & (log_u[number] < log_acceptance(old, part, temperature, ratio))
        return Decision(alive, spent)

    def stages(self, sites: Int[Tensor, "m k"]) -> list[Bool[Tensor, "m S"]]:
        """The columns whose terms each stage decides with, by distance from the nearest redrawn site."""
        distance = self._distance(sites)
        ends = [-1, *self.delayed, self.target.columns]
        return [(distance > after) & (distance <= upto) for after, upto in pairwise(ends)]

    def _distance(self, sites: Int[Tensor, "m k"]) -> Int[Tensor, "m S"]:
        columns = torch.arange(self.target.columns, device=sites.device)
        return (columns - self.target.free[sites].unsqueeze(-1)).abs().amin(1)

    def _evaluate(
        self,
        new: ChainState,
        columns: Bool[Tensor, "m S"],
        apart: Float[Tensor, " m"],
        bound: Float[Tensor, " m"],
        promise: Float[Tensor, "m S"],
        alive: Bool[Tensor, " m"],
    ) -> tuple[Bool[Tensor, " m"], Int[Tensor, " m"]]:
        """Compute the unknown terms among `columns` of the chains `alive`; which of them no partial sum has rejected.

        apart     what the new energy has besides these terms
        promise   the order in which early rejection looks at the terms, the largest first
        """
        early = self.early and self.target.energy.kind == "norm"
        ceiling = bound + SLACK * (1 + bound.abs())
        spent = torch.zeros(len(alive), dtype=torch.long, device=alive.device)
        sizes = COLUMNS_PER_ROUND[alive.device.type]
        for number in count():
            if early:
                alive = alive & (torch.where(columns & new.fresh, new.terms, 0.0).sum(-1) + apart <= ceiling)
            wanted = columns & ~new.fresh & alive.unsqueeze(1)
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
