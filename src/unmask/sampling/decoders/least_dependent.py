"""Least dependent next: fill blanks together that hardly depend on each other.

    I_ij        dependence of two blanks, estimated by the model's profile (`unmask.tables.profile`)
    i_1         the blank with the largest sum of I
    i_t         the blank with the smallest next term  min(H_i, sum_{s<t} I_{i i_s}),   while the terms sum to gamma at most

The sum estimates the total correlation that one pass loses; it is no bound. gamma = 0 gives one blank per pass unless I is 0.
Given a number of passes, each pass plans all passes that are left with the present entropies, under the smallest gamma that they
allow, and fills the first set of the plan.
Without a profile the blanks are interleaved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.checks import real
from unmask.errors import UnmaskWarning
from unmask.options.sampling import HOTTEST
from unmask.sampling.decoders.interleaved import every_nth
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen
from unmask.tables.profile import Profile

HALVINGS = 12
USUAL_PASSES = 10


@dataclass(frozen=True)
class LeastDependent(RevealingDecoder):
    """Sets under a bound on the estimated dependence; `profile` None: the model's own."""

    gamma: float = 1.0
    profile: Profile | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        real("gamma", self.gamma, 0, HOTTEST)
        if self.profile is not None:
            self.profile.check(self.target.model)
        if self._profile is None:
            warnings.warn(
                f"{self.target.model.name} has no dependence profile: blanks are interleaved; measure one with "
                "unmask dependence --profile",
                UnmaskWarning,
                stacklevel=3,
            )

    @cached_property
    def _profile(self) -> Profile | None:
        return self.profile or Profile.of(self.target.model)

    @property
    def steps(self) -> int:
        if self._profile is None and self.decoding_steps is None:
            return min(self.target.sites, USUAL_PASSES)
        return super().steps

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        if self._profile is None:
            return seen.blank & every_nth(self.target.sites, self.steps, seen.step).to(seen.blank.device)
        dependence = self._profile.estimate(seen.entropy, self.target.free_positions)
        entropy = torch.where(seen.blank, seen.entropy, torch.inf)
        if seen.left is None:
            return planned(entropy, dependence, torch.full_like(entropy[:, 0], self.gamma))[0]
        low, high = torch.zeros_like(entropy[:, 0]), seen.entropy.sum(1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            fits = planned(entropy, dependence, middle, whole=True)[1] <= seen.left
            low, high = torch.where(fits, low, middle), torch.where(fits, middle, high)
        return planned(entropy, dependence, high)[0]


def planned(
    entropy: Float[Tensor, "n F"], dependence: Float[Tensor, "n F F"], gamma: Float[Tensor, " n"], whole: bool = False
) -> tuple[Bool[Tensor, "n F"], Float[Tensor, " n"]]:
    """The first set of each plan, and the number of its sets (with `whole`; else 1); sites with infinite entropy are in none."""
    rows = torch.arange(len(entropy), device=entropy.device)
    free = entropy.isfinite()
    first = torch.zeros_like(free)
    sets = torch.zeros_like(gamma)
    spent = torch.full_like(gamma, torch.inf)
    near = torch.zeros_like(entropy)  # summed dependence on the present set
    for _ in range(entropy.shape[1]):
        ties = (dependence * free.unsqueeze(1)).sum(2)
        term = torch.where(free, torch.minimum(entropy, near), torch.inf)
        smallest, following = term.min(1)
        new = spent + smallest > gamma
        site = torch.where(new, torch.where(free, ties, -torch.inf).argmax(1), following)
        going = free.any(1) if whole else free.any(1) & (~new | (sets == 0))
        if not bool(going.any()):
            break
        new = new & going
        sets = sets + new
        spent = torch.where(new, 0.0, torch.where(going, spent + smallest, spent))
        near = torch.where(new.unsqueeze(1), 0.0, near) + torch.where(going.unsqueeze(1), dependence[rows, :, site], 0.0)
        free[rows[going], site[going]] = False
        first[rows, site] |= going & (sets == 1)
        if not whole:
            spent = torch.where(going, spent, torch.inf)
    return first, sets
