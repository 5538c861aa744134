"""The state of many chains at once: their texts, and what the model said about them.

`tables[c, i]` are the logits at site i of chain c's text with that site masked alone: the proposal distribution of the
site and its energy term in one. A kernel that computes an energy produces all of them, so they are kept: redrawing the
token that is there costs no pass, and an accepted text leaves its tables ready for the next proposal.

A step writes into the tensors of the state it is given and returns them: go on with the state that it returned.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.energy import masked_alone
from unmask.sampling.passes import Passes
from unmask.sampling.target import Target


class ChainState(NamedTuple):
    """n chains over texts of T tokens, S of them with an energy term, F of them free.

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
    steps: int

    @property
    def energy(self) -> Float[Tensor, " n"]:
        """E(x) of each chain; nan where a term is not known."""
        return torch.where(self.fresh, self.terms, torch.nan).sum(-1) + self.user


class StepInfo(NamedTuple):
    """What one step did, a row for each chain.

    sites      the sites that were redrawn
    accepted   whether the proposal was accepted; one that redraws the same tokens always is
    proposed   which of the sites were proposed another token
    changed    which of the sites hold another token now (novel)
    passes     forward passes spent
    swaps      of parallel tempering, over all chains: tried and accepted between neighbouring temperatures
    """

    sites: Int[Tensor, "n k"]
    accepted: Bool[Tensor, " n"]
    proposed: Bool[Tensor, "n k"]
    changed: Bool[Tensor, "n k"]
    passes: Int[Tensor, " n"]
    swaps: Int[Tensor, "2 R"] | None = None


def empty_state(target: Target, ids: Int[Tensor, "n T"], temperature: Float[Tensor, " n"] | None = None) -> ChainState:
    """The texts, with nothing known about them yet; no pass."""
    target.check(ids)
    n, model = len(ids), target.model
    probe = model.logits(ids[:1].to(model.device), target.positions[:1].unsqueeze(0).to(model.device))
    return ChainState(
        ids=ids.clone(),
        tables=torch.empty((n, target.sites, model.vocab_size), dtype=probe.dtype, device=probe.device),
        terms=torch.zeros((n, target.columns), dtype=torch.float64),
        fresh=torch.zeros((n, target.columns), dtype=torch.bool),
        user=target.energy.from_user(ids),
        temperature=torch.full((n,), target.energy.temperature, dtype=torch.float64)
        if temperature is None
        else temperature.clone(),
        steps=0,
    )


def complete(target: Target, passes: Passes, state: ChainState) -> tuple[ChainState, Int[Tensor, " n"]]:
    """Every stale column computed; the passes that it took, for each chain."""
    stale = ~state.fresh
    rows, columns = stale.nonzero(as_tuple=True)
    look_up(target, passes, state, rows, columns)
    return state, stale.sum(-1)


LARGEST_LOOK_UP = 512
"""Rows of logits held at once besides the tables."""


def look_up(target: Target, passes: Passes, state: ChainState, rows: Int[Tensor, " m"], columns: Int[Tensor, " m"]) -> None:
    """Compute the terms of `columns` of the texts `rows`, and their tables where they are free; one pass each."""
    for start in range(0, len(rows), LARGEST_LOOK_UP):
        row, column = rows[start : start + LARGEST_LOOK_UP], columns[start : start + LARGEST_LOOK_UP]
        positions = target.positions[column]
        text = state.ids[row]
        logits = passes.logits(masked_alone(text, positions, target.model.mask_id), positions.unsqueeze(1))[:, 0]
        state.terms[row, column] = target.energy.term(logits, text.gather(1, positions.unsqueeze(1)).squeeze(1))
        state.fresh[row, column] = True
        site = target.site_of_column[column]
        free = site >= 0
        place = (row[free].to(logits.device), site[free].to(logits.device))
        state.tables[place] = logits[free.to(logits.device)]


def take(state: ChainState, rows: Int[Tensor, " m"]) -> ChainState:
    """A copy of some chains."""
    return ChainState(
        state.ids[rows], state.tables[rows.to(state.tables.device)], state.terms[rows], state.fresh[rows], state.user[rows],
        state.temperature[rows], state.steps,
    )  # fmt: skip


def put(state: ChainState, rows: Int[Tensor, " m"], other: ChainState, chosen: Int[Tensor, " m"]) -> None:
    """Write the chains `chosen` of `other` over the chains `rows` of `state`."""
    state.ids[rows] = other.ids[chosen]
    state.tables[rows.to(state.tables.device)] = other.tables[chosen.to(state.tables.device)]
    state.terms[rows] = other.terms[chosen]
    state.fresh[rows] = other.fresh[chosen]
    state.user[rows] = other.user[chosen]
