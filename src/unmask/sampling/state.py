"""The state of many chains at once: their texts, and what the model said about them.

`tables[c, i]` are the logits at site i of chain c's text with that site masked alone: the proposal distribution of the
site and its energy term in one. A kernel that computes an energy produces all of them, so they are kept: redrawing the
token that is there costs no pass, and an accepted text leaves its tables ready for the next proposal.

All tensors are on the model's device. A step changes the state that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import InputError, ModelError
from unmask.sampling.energy import masked_alone
from unmask.sampling.passes import Passes
from unmask.sampling.target import Target

LARGEST_LOOK_UP = 512
"""Rows of logits held at once besides the tables."""


@dataclass
class ChainState:
    """n chains over texts of T tokens, S of them with an energy term, F of them free; steps change it in place.

    ids           token ids
    tables        logits of each free position, masked alone, where `fresh`
    terms         energy terms of the current tokens, float64, where `fresh`
    fresh         whether a column's term and table are those of the current text
    user          sum of the user's terms, float64
    temperature   of each chain, float64
    steps         steps since the start
    """

    ids: Int[Tensor, "n T"]
    tables: Float[Tensor, "n F V"]
    terms: Float[Tensor, "n S"]
    fresh: Bool[Tensor, "n S"]
    user: Float[Tensor, " n"]
    temperature: Float[Tensor, " n"]
    steps: int = 0

    @classmethod
    def at(cls, target: Target, ids: Int[Tensor, "n T"], temperature: Float[Tensor, " n"] | None = None) -> ChainState:
        """Chains at the texts `ids`, with nothing known about them yet; the model is not run."""
        ids = ids.to(target.device, copy=True)
        target.check(ids)
        user = target.energy.from_user(ids)
        if bool(user.isinf().any()):
            raise InputError("a start is forbidden by a user term: a chain cannot start where its target is zero")
        n, wide = len(ids), torch.empty(0, dtype=torch.float64, device=target.device)
        dtype = torch.promote_types(target.model.dtype, torch.float32)
        return cls(
            ids=ids,
            tables=torch.empty((n, target.sites, target.model.vocab_size), dtype=dtype, device=target.device),
            terms=wide.new_zeros((n, target.columns)),
            fresh=torch.zeros((n, target.columns), dtype=torch.bool, device=target.device),
            user=user,
            temperature=wide.new_full((n,), target.energy.temperature) if temperature is None else temperature.to(wide),
        )

    @property
    def rows(self) -> Int[Tensor, " n"]:
        """0 ... n - 1, on the state's device."""
        return torch.arange(len(self.ids), device=self.ids.device)

    @property
    def energy(self) -> Float[Tensor, " n"]:
        """E(x) of each chain; nan where a term is not known."""
        return torch.where(self.fresh, self.terms, torch.nan).sum(-1) + self.user

    def take(self, rows: Int[Tensor, " m"]) -> ChainState:
        """A copy of some chains."""
        return ChainState(
            self.ids[rows],
            self.tables[rows],
            self.terms[rows],
            self.fresh[rows],
            self.user[rows],
            self.temperature[rows],
            self.steps,
        )

    def put(self, rows: Int[Tensor, " m"], other: ChainState, chosen: Int[Tensor, " m"]) -> None:
        """Write the texts `chosen` of `other`, and what is known about them, over the chains `rows`."""
        self.ids[rows] = other.ids[chosen]
        self.tables[rows] = other.tables[chosen]
        self.terms[rows] = other.terms[chosen]
        self.fresh[rows] = other.fresh[chosen]
        self.user[rows] = other.user[chosen]

    def look_up(self, target: Target, passes: Passes, rows: Int[Tensor, " m"], columns: Int[Tensor, " m"]) -> None:
        """Compute the terms of `columns` of the texts `rows`, and their tables where they are free; one pass each."""
        for start in range(0, len(rows), LARGEST_LOOK_UP):
            row, column = rows[start : start + LARGEST_LOOK_UP], columns[start : start + LARGEST_LOOK_UP]
            positions = target.positions[column]
            text = self.ids[row]
            logits = passes.logits(masked_alone(text, positions, target.model.mask_id), positions.unsqueeze(1))[:, 0]
            terms = target.energy.term(logits, text.gather(1, positions.unsqueeze(1)).squeeze(1))
            if bool(terms.isnan().any()):
                raise ModelError("the model's logits are not numbers: run it in float32, or check its weights")
            self.terms[row, column] = terms
            self.fresh[row, column] = True
            site = target.site_of_column[column]
            free = site >= 0
            self.tables[row[free], site[free]] = logits[free]

    def complete(self, target: Target, passes: Passes) -> Int[Tensor, " n"]:
        """Compute every column that is not fresh; the passes that it took, for each chain."""
        stale = ~self.fresh
        rows, columns = stale.nonzero(as_tuple=True)
        self.look_up(target, passes, rows, columns)
        return stale.sum(-1)


class StepInfo(NamedTuple):
    """What one step did, a row for each chain.

    sites      the sites that were redrawn
    accepted   whether the proposal was accepted; one that redraws the same tokens always is
    proposed   which of the sites were proposed another token
    changed    which of the sites hold another token now (novel)
    passes     forward passes that the step asked for
    swaps      of parallel tempering, over all chains: tried and accepted between neighbouring temperatures
    """

    sites: Int[Tensor, "n k"]
    accepted: Bool[Tensor, " n"]
    proposed: Bool[Tensor, "n k"]
    changed: Bool[Tensor, "n k"]
    passes: Int[Tensor, " n"]
    swaps: Int[Tensor, "2 R"] | None = None
