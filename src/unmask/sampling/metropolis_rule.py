"""The Metropolis-Hastings decision, with the new text's energy computed only as far as the decision needs it.

A proposal x' drawn with density g(x' | x) is accepted when

    log u < (E(x) - E(x')) / T + log g(x | x') - log g(x' | x)         u uniform on (0, 1), drawn first,

that is, when E(x') < E(x) + T (log_ratio - log u) =: bound. Three savings, none of which changes the law of the chain:

early rejection      the norm energy's terms are >= 0, so a partial sum above the bound has decided; terms that are large
                     in the current text or near the redrawn sites come first
known columns        a column whose context did not change keeps its logits (the redrawn site of a one-site proposal)
delayed acceptance   split E = E_near + ... + E_far by distance from the redrawn sites. Stage 1 accepts with E_near and the
                     proposal's ratio, the last one with E_far: prod_j min(1, e^r_j), where r_j changes its sign when x and
                     x' change places, hence pi-reversible (Christen & Fox 2005). A proposal that stage 1 rejects costs
                     only the near terms. Distances do not look at the values of the redrawn sites.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.passes import Passes
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, look_up, put, take
from unmask.sampling.target import Target

ROUND = 2
"""Columns of each undecided chain that one round of early rejection computes."""
NEARNESS = 2.0
"""How much more a neighbour's term is worth looking at than one far away, of the same size."""
SLACK = 1e-9
"""A partial sum decides only when it is beyond the bound by more than summation order can move it."""


class MetropolisRule:
    """Accepts or rejects proposals for the chains of a state; `early` and `delayed` save passes.

    early     early rejection (norm energy only)
    delayed   rising distances that end the stages of delayed acceptance; (1, 3) makes three: up to 1, up to 3, the rest
    """

    def __init__(self, target: Target, passes: Passes, early: bool = True, delayed: tuple[int, ...] = ()) -> None:
        if any(d < 0 for d in delayed) or any(a >= b for a, b in pairwise(delayed)):
            raise InputError(f"delayed acceptance at distances {list(delayed)}: give rising numbers, such as 1,3")
        self.target, self.passes = target, passes
        self.early = early and target.energy.kind == "norm"
        self.delayed = delayed

    def decide(
        self,
        state: ChainState,
        rows: Int[Tensor, " m"],
        new: ChainState,
        log_ratio: Float[Tensor, " m"],
        sites: Int[Tensor, "m k"],
        rng: Randomness,
    ) -> tuple[Bool[Tensor, " m"], Int[Tensor, " m"]]:
        """Move the chains `rows` to the texts `new` where accepted; the decisions, and the passes spent.

        new         the proposed texts, one for each of `rows`; `fresh` columns are known already
        log_ratio   log g(x | x') - log g(x' | x)
        """
        distance = (torch.arange(self.target.columns) - self.target.free[sites].unsqueeze(-1)).abs().amin(1)
        stages = self._stages(distance)
        log_u = torch.stack([rng.log_uniform(rows) for _ in stages])
        alive = log_ratio > -torch.inf
        spent = torch.zeros(len(rows), dtype=torch.long)
        old_terms, temperature = state.terms[rows], state.temperature[rows]
        promise = (old_terms + 0.3) * (1 + NEARNESS / distance.clamp(min=1))
        for number, columns in enumerate(stages):
            bound = (old_terms * columns).sum(-1) - temperature * log_u[number]
            start = torch.zeros_like(bound)
            if number == 0:
                bound = bound + state.user[rows] + temperature * log_ratio
                start = new.user
            self._evaluate(new, columns, start, bound, promise, alive, spent)
            total = torch.where(columns & alive.unsqueeze(1), new.terms, 0.0).sum(-1) + start
            alive = alive & (total < bound)
        put(state, rows[alive], new, alive.nonzero().squeeze(1))
        return alive, spent

    def _stages(self, distance: Int[Tensor, "m S"]) -> list[Bool[Tensor, "m S"]]:
        """The columns of each stage, by distance from the nearest redrawn site."""
        ends = [-1, *self.delayed, self.target.columns]
        return [(distance > after) & (distance <= upto) for after, upto in pairwise(ends)]

    def _evaluate(
        self,
        new: ChainState,
        columns: Bool[Tensor, "m S"],
        start: Float[Tensor, " m"],
        bound: Float[Tensor, " m"],
        promise: Float[Tensor, "m S"],
        alive: Bool[Tensor, " m"],
        spent: Int[Tensor, " m"],
    ) -> None:
        """Compute the unknown terms among `columns` of the chains `alive`; clears `alive` where a partial sum decides."""
        slack = SLACK * (1 + bound.abs())
        while True:
            if self.early:
                partial = torch.where(columns & new.fresh, new.terms, 0.0).sum(-1) + start
                alive &= partial <= bound + slack
            wanted = columns & ~new.fresh & alive.unsqueeze(1)
            if not bool(wanted.any()):
                return
            if self.early:
                wanted &= _largest(torch.where(wanted, promise, -torch.inf), ROUND)
            row, column = wanted.nonzero(as_tuple=True)
            look_up(self.target, self.passes, new, row, column)
            spent += wanted.sum(-1)


def _largest(values: Float[Tensor, "m S"], k: int) -> Bool[Tensor, "m S"]:
    """Where the k largest values of each row stand."""
    chosen = torch.zeros(values.shape, dtype=torch.bool)
    best = values.topk(min(k, values.shape[1]), dim=-1).indices
    return chosen.scatter(1, best, True)


def proposed_state(target: Target, state: ChainState, rows: Int[Tensor, " m"], ids: Int[Tensor, "m T"]) -> ChainState:
    """The proposed texts, with what is known about them for free: the column of a single changed token."""
    new = take(state, rows)
    changed = new.ids[:, target.positions] != ids[:, target.positions]
    alone = changed & (changed.sum(-1, keepdim=True) == 1)
    row, column = alone.nonzero(as_tuple=True)
    logits = new.tables[row.to(new.tables.device), target.site_of_column[column].to(new.tables.device)]
    known = new.fresh & alone
    terms = torch.zeros_like(new.terms)
    if len(row):
        terms[row, column] = target.energy.term(logits, ids[row, target.positions[column]])
    return new._replace(ids=ids.clone(), terms=terms, fresh=known, user=target.energy.from_user(ids))
