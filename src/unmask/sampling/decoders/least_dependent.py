"""Least dependent next: fill blanks together that hardly depend on each other.

    I_ij   dependence of two blanks: by the model's profile (`unmask.tables.profile`)

With a bound: begin with the blank of the largest sum of I, and add the blank with the smallest next term

    min(H_i, sum of I_ij over the blanks j taken)     while the terms sum to gamma at most.

The sum estimates the total correlation that one pass loses; it is not a bound. gamma = 0 gives one blank per pass unless I is 0.

With a number of passes r: plan all of them, fill one set of the plan, and plan again after the pass. The plan parts the blanks
into r sets of equal size, so that no pass is left with blanks that depend on each other: blanks in the order of their sums of I,
largest first, each into the set with room where FALL^k times its term is smallest, k = 0 ... r-1 the number of the set. The set
with the blank of lowest entropy is filled first.

Without a profile the blanks are interleaved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.errors import UnmaskWarning
from unmask.sampling import registry
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen, every_nth
from unmask.tables.profile import MEASURE, Profile

USUAL_PASSES = 10
FALL = 0.85


@dataclass(frozen=True)
class LeastDependent(RevealingDecoder):
    """Sets of blanks with little dependence."""

    options: registry.LeastDependent = registry.LeastDependent()

    def __post_init__(self) -> None:
        if self.options.profile is not None:
            self.options.profile.check(self.target.model)
        if self._profile is None:
            warnings.warn(
                f"{self.target.model.name} has no dependence profile: blanks are interleaved; {MEASURE}",
                UnmaskWarning,
                stacklevel=3,
            )

    @cached_property
    def _profile(self) -> Profile | None:
        return self.options.profile or Profile.of(self.target.model)

    @property
    def steps(self) -> int:
        if self._profile is None and self.options.passes is None:
            return min(self.target.sites, USUAL_PASSES)
        return super().steps

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        if self._profile is None:
            return seen.blank & every_nth(self.target.sites, self.steps, seen.step).to(seen.blank.device)
        information = self._profile.estimate(seen.entropy, self.target.free_positions.to(seen.entropy.device))
        if seen.left is None:
            return set_under_bound(seen.entropy, seen.blank, information, self.options.limit)
        return first_of_plan(seen.entropy, seen.blank, information, seen.left)


def set_under_bound(
    entropy: Float[Tensor, "n F"], blank: Bool[Tensor, "n F"], information: Float[Tensor, "n F F"], gamma: float
) -> Bool[Tensor, "n F"]:
    """Blank sites of each text, least dependent next, while the terms sum to gamma at most."""
    rows = torch.arange(len(entropy), device=entropy.device)
    free, chosen, near = blank.clone(), torch.zeros_like(blank), torch.zeros_like(entropy)
    site = torch.where(free, (information * free.unsqueeze(1)).sum(2), -torch.inf).argmax(1)
    going, spent = free.any(1), torch.zeros_like(entropy[:, 0])
    while bool(going.any()):
        chosen[rows, site] |= going
        free[rows, site] = False
        near = near + information[rows, :, site]
        term, site = torch.where(free, torch.minimum(entropy, near), torch.inf).min(1)
        spent = spent + term
        going = going & (spent <= gamma)
    return chosen


def first_of_plan(
    entropy: Float[Tensor, "n F"], blank: Bool[Tensor, "n F"], information: Float[Tensor, "n F F"], passes: int
) -> Bool[Tensor, "n F"]:
    """The set that a plan of `passes` sets fills first; sizes are equal, or larger by 1 in later sets."""
    sums = torch.where(blank, (information * blank.unsqueeze(1)).sum(2), -torch.inf)
    order = sums.argsort(dim=1, descending=True, stable=True)
    across = order.unsqueeze(1).expand_as(information)
    information, ordered = information.gather(1, across.mT).gather(2, across), entropy.gather(1, order)
    sets = torch.arange(passes, device=blank.device)
    room, weight = (blank.sum(1, keepdim=True) + sets) // passes, FALL ** sets.double()
    near = torch.zeros((*room.shape, blank.shape[1]), dtype=entropy.dtype, device=blank.device)
    places = torch.zeros_like(order)
    for place in range(blank.shape[1]):
        term = torch.minimum(near[:, :, place], ordered[:, place : place + 1]) * weight
        chosen = torch.where(room > 0, term, torch.inf).argmin(1, keepdim=True)
        inside = sets == chosen
        room = room - inside.long()
        near = near + inside.unsqueeze(2) * information[:, place : place + 1]
        places[:, place : place + 1] = chosen
    number = torch.zeros_like(order).scatter(1, order, places)
    first = torch.where(blank, entropy, torch.inf).argmin(1, keepdim=True)
    return blank & (number == number.gather(1, first))
