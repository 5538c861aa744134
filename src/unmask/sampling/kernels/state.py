"""The state of many chains, which a step changes.

`outputs[c, i]` is the network's output at site i of chain c's text with that site masked alone,
as logits or as a hidden state (see `engine.passes`): the proposal distribution of the site and its
energy term in one. A kernel that computes an energy produces all of them, so the state caches
them: redrawing the current token costs no pass, and an accepted text has the outputs that the
next proposal needs.

All tensors are on the model's device, and a step waits for it only to count the rows that still
need a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unmask.common.errors import InputError, ModelError
from unmask.common.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.engine.passes import Passes
    from unmask.sampling.target import Target

LARGEST_LOOK_UP = 512  # Rows that are looked up at once, as logits
LARGEST_LOOK_UP_AS_STATES = 8192  # The same, as hidden states


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
        """Chains at the texts `ids`, which lie in the support of the target, with nothing known
        about them yet; the model is not run.
        """
        ids = ids.to(target.device, copy=True)
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
        target.check(saved["ids"])
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
        return ChainState(
            ids=self.ids[rows],
            terms=self.terms[rows],
            fresh=self.fresh[rows],
            user=self.user[rows],
            outputs=None if self.outputs is None else self.outputs[rows],
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
