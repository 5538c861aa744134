"""Kernels: a step of a chain, the state of many chains that it changes, and the plan of the
sites that it is given.

`outputs[c, i]` is the network's output at site i of chain c's text with that site masked alone,
as logits or as a hidden state (see `passes`): the proposal distribution of the site and its
energy term in one. A kernel that computes an energy produces all of them, so the state caches
them: redrawing the current token costs no pass, and an accepted text has the outputs that the
next proposal needs.

All tensors are on the model's device, and a step waits for it only to count the rows that still
need a pass.

`PseudoGibbs`, the kernel without an energy, redraws a position from its conditional and always
accepts:

    x_i ~ q_i(. | x_{-i})

With the conditionals of one joint this is Gibbs sampling of that joint. A masked language
model's conditionals are in general those of no joint: the chain then has a law of its own,
which depends on the order of the updates and is neither exp(-E_raw) nor exp(-E_norm). One pass
per update, none if no other token changed since the last look.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.errors import InputError, ModelError
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.registry import Gibbs, Markov, Scan
from unmask.sampling.target import Target

LARGEST_LOOK_UP, LARGEST_LOOK_UP_AS_STATES = (
    512,
    8192,
)  # Rows that are looked up at once, as logits and as states


@dataclass
class ChainState:
    """n chains over texts of T tokens, S of them with an energy term, F of them free; steps
    change it in place.

    ids           token ids
    outputs       the network's output at each site, masked alone, where `fresh`; None before
                  the first
    terms         energy terms of the current tokens, float64, where `fresh`
    fresh         whether a column's term, and its output if it is cached, are those of the
                  current text
    user          sum of the user's terms, float64
    """

    ids: Int[Tensor, "n T"]
    terms: Float[Tensor, "n S"]
    fresh: Bool[Tensor, "n S"]
    user: Float[Tensor, " n"]
    outputs: Float[Tensor, "n F W"] | None = None

    @classmethod
    def at(cls, target: Target, ids: Int[Tensor, "n T"]) -> ChainState:
        """Chains at the texts `ids`, with nothing known about them yet; the model is not run."""
        ids = ids.to(target.device, copy=True)
        target.check(ids)
        user = target.energy.from_user(ids)
        if bool(user.isinf().any()):
            raise InputError(
                "a start is forbidden by a user term, where the target is zero: give starts that it"
                " allows, by init"
            )
        state = cls.blank(target, len(ids))
        state.ids, state.user = ids, user
        return state

    @classmethod
    def blank(cls, target: Target, n: int) -> ChainState:
        """n chains at the template itself: no text yet, and nothing known."""
        wide = torch.empty(0, dtype=torch.float64, device=target.device)
        return cls(
            ids=target.template_ids.repeat(n, 1),
            terms=wide.new_zeros((n, target.columns)),
            fresh=torch.zeros((n, target.columns), dtype=torch.bool, device=target.device),
            user=wide.new_zeros(n),
        )

    def snapshot(self) -> dict[str, Tensor]:
        """All that the chains need to go on, except the outputs, which `restored` computes
        again.
        """
        return {"ids": self.ids.clone(), "fresh": self.fresh.clone()}

    @classmethod
    def restored(
        cls, target: Target, passes: Passes | None, saved: Mapping[str, Tensor]
    ) -> ChainState:
        """The state of a snapshot; without `passes` its outputs are not computed, and it can
        only be read.
        """
        state = cls.at(target, saved["ids"])
        if passes is not None:
            rows, columns = saved["fresh"].nonzero(as_tuple=True)
            state.look_up(target, passes, rows, columns)
        return state

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
        ids, terms, fresh, user = (
            values[rows] for values in (self.ids, self.terms, self.fresh, self.user)
        )
        return ChainState(
            ids, terms, fresh, user, None if self.outputs is None else self.outputs[rows]
        )

    def put(self, rows: Int[Tensor, " m"], other: ChainState, chosen: Int[Tensor, " m"]) -> None:
        """Write the texts `chosen` of `other`, and what is known about them, over the chains
        `rows`.
        """
        for name in ("ids", "terms", "fresh", "user", "outputs"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None:
                mine[rows] = theirs[chosen]

    def look_up(
        self,
        target: Target,
        passes: Passes,
        rows: Int[Tensor, " m"],
        columns: Int[Tensor, " m"],
        keep: bool = True,
    ) -> None:
        """Compute the terms of `columns` of the texts `rows`, and cache the outputs at free
        ones. One pass each.
        """
        size = LARGEST_LOOK_UP_AS_STATES if passes.as_states(self.ids) else LARGEST_LOOK_UP
        for start in range(0, len(rows), size):
            row, column = rows[start : start + size], columns[start : start + size]
            terms, outputs = passes.terms(self.ids[row], target.positions[column], target.energy)
            self.terms[row, column] = terms
            self.fresh[row, column] = torch.ones_like(row, dtype=torch.bool)
            if keep:
                self._cache(target, row, target.site_of_column[column], outputs)

    def look(
        self, target: Target, passes: Passes, rows: Int[Tensor, " m"], sites: Int[Tensor, " m"]
    ) -> None:
        """Compute and cache the output at one site of each of the texts `rows`, without its
        term; one pass each.
        """
        if len(rows):
            self._cache(
                target, rows, sites, passes.alone(self.ids[rows], target.free_positions[sites])
            )

    def _cache(
        self,
        target: Target,
        rows: Int[Tensor, " m"],
        sites: Int[Tensor, " m"],
        outputs: Float[Tensor, "m W"],
    ) -> None:
        if self.outputs is None:
            self.outputs = outputs.new_empty((len(self.ids), target.sites, outputs.shape[1]))
        if target.sites == target.columns:
            self.outputs[rows, sites] = outputs
        else:
            free = sites >= 0
            self.outputs[rows[free], sites[free]] = outputs[free]

    def outputs_at(self, rows: Int[Tensor, " m"], sites: Int[Tensor, " m"]) -> Float[Tensor, "m W"]:
        """The cached outputs at one site of each text, which must be fresh."""
        assert self.outputs is not None
        return self.outputs[rows, sites]

    def complete(self, target: Target, passes: Passes, keep: bool = True) -> Int[Tensor, " n"]:
        """Compute every column that is not fresh; the passes that it took, for each chain."""
        stale = ~self.fresh
        rows, columns = stale.nonzero(as_tuple=True)
        self.look_up(target, passes, rows, columns, keep)
        refuse_nan(self.terms)
        return stale.sum(-1)


def refuse_nan(terms: Float[Tensor, "n S"]) -> None:
    """Raise if an energy term is NaN, which NaN logits give."""
    if bool(terms.isnan().any()):
        raise ModelError(
            "the model's logits are not numbers: run it in float32, or check its weights"
        )


class StepInfo(NamedTuple):
    """The outcome of one step, a row for each chain.

    sites      the sites that were redrawn
    accepted   whether the proposal was accepted; one that redraws the same tokens always is
    proposed   which of the sites were proposed another token
    changed    which of the sites hold another token now (novel)
    passes     forward passes that the step asked for
    """

    sites: Int[Tensor, "n k"]
    accepted: Bool[Tensor, " n"]
    proposed: Bool[Tensor, "n k"]
    changed: Bool[Tensor, "n k"]
    passes: Int[Tensor, " n"]


@dataclass(frozen=True)
class Kernel(ABC):
    """One step of a Markov chain over texts, for many chains at once; see
    `unmask.sampling.registry` for its options.

    kernel = unmask.MH(temperature=0.8).on(target)
    state, passes = kernel.init(ids)
    state, info = kernel.step(state, rng, sites)
    """

    target: Target
    passes: Passes
    options: Markov = Markov()

    def __init_subclass__(cls) -> None:
        for name in {"init", "step"} & vars(cls).keys():
            setattr(cls, name, checked(getattr(cls, name)))

    @cached_property
    def plan(self) -> SweepPlan:
        """The sites of a sweep."""
        return SweepPlan(self.target.sites, self.options.scan, self.options.sites_per_step)

    @abstractmethod
    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """The state of chains that start at the texts `ids`, and the passes that each took."""

    @abstractmethod
    def step(
        self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n k"]
    ) -> tuple[ChainState, StepInfo]:
        """Redraw the sites `sites` of each chain; which sites must not depend on the tokens there.

        Changes `state` in place and returns it; `state.take(state.rows)` is a copy.
        """


@dataclass(frozen=True)
class PseudoGibbs(Kernel):
    """Always accepts. The energy of its states is known only where their columns happen to be
    fresh.
    """

    options: Markov = Gibbs()

    def init(self, ids: Int[Tensor, "n T"]) -> tuple[ChainState, Int[Tensor, " n"]]:
        """No pass: conditionals are looked up when they are needed."""
        return ChainState.at(self.target, ids), torch.zeros(
            len(ids), dtype=torch.long, device=self.target.device
        )

    def step(
        self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]
    ) -> tuple[ChainState, StepInfo]:
        """Redraw one site of each chain."""
        rows, site = state.rows, sites[:, 0]
        column, position = self.target.free[site], self.target.free_positions[site]
        stale = ~state.fresh[rows, column]
        unknown = stale.nonzero().squeeze(1)
        state.look(self.target, self.passes, unknown, site[unknown])
        current, outputs = state.ids[rows, position], state.outputs_at(rows, site)
        drawn = rng.tokens(
            rows,
            self.passes.categoricals(
                outputs, self.target, self.options.proposal_temperature, site, current
            ),
        )
        changed = (drawn.tokens != current).unsqueeze(1)
        state.ids[rows, position] = drawn.tokens
        state.fresh &= ~changed
        state.fresh.scatter_(1, column.unsqueeze(1), True)
        state.terms[rows, column] = self.target.energy.term_of(drawn)
        state.user = self.target.energy.from_user(state.ids)
        return state, StepInfo(
            sites, torch.ones_like(changed[:, 0]), changed, changed, stale.long()
        )


class SweepPlan:
    """Which sites every step of a sweep over `sites` sites redraws; never by looking at the
    current tokens.

        random        every step draws its site uniformly
        fixed         from the first site to the last
        permutation   each site once, in a random order

    Blocks are windows of `block_size` neighbours. A sweep has as many steps as it takes to
    redraw all sites once. Within a block the order of the sites is random, except in fixed
    sweeps.
    """

    def __init__(self, sites: int, scan: Scan = "permutation", block_size: int = 1) -> None:
        if not 1 <= block_size <= sites:
            raise InputError(
                f"blocks of {block_size} in a text of {sites} free positions: give a block size"
                f" from 1 to {sites}"
            )
        self.sites: int = sites
        self.scan = scan
        self.block_size: int = block_size

    @property
    def steps(self) -> int:
        """Steps of one sweep."""
        return ceil(self.sites / self.block_size)

    @checked
    def draw(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n k"]:
        """The sites of each step, for each of the chains `rows`."""
        if self.block_size == 1:
            return self._single(rng, rows).unsqueeze(-1)
        return torch.stack([self._block(rng, rows, step) for step in range(self.steps)])

    def _single(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n"]:
        if self.scan == "fixed":
            return torch.arange(self.sites, device=rows.device).unsqueeze(1).expand(-1, len(rows))
        if self.scan == "permutation":
            return rng.permutation(rows, self.sites).T
        return torch.stack([rng.integers(rows, self.sites) for _ in range(self.sites)])

    def _block(self, rng: Randomness, rows: Int[Tensor, " n"], step: int) -> Int[Tensor, "n k"]:
        if self.scan == "fixed":
            first = min(step * self.block_size, self.sites - self.block_size)
            return torch.arange(first, first + self.block_size, device=rows.device).expand(
                len(rows), -1
            )
        starts = rng.integers(rows, self.sites - self.block_size + 1)
        return starts.unsqueeze(1) + rng.permutation(rows, self.block_size)
