"""Least dependent next: fill blanks together that hardly depend on each other.

    I_ij   dependence of two blanks: by the model's profile (`unmask.tables.profile`), or measured (measured.py)
    i_1    the blank with the largest sum of I
    i_t    the blank with the smallest next term  min(H_i, sum_{s<t} I_{i i_s}),   while the terms sum to gamma at most

The sum estimates the total correlation that one pass loses; it is not a bound. gamma = 0 gives one blank per pass unless I is 0.
Given a number of passes instead, they take equal numbers of blanks: sets of one size lose less than sets under the gamma that needs
as many passes if entropies stay as they are, because this gamma underestimates how fast they fall.
Without a profile the blanks are interleaved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.checks import one_of, real
from unmask.errors import UnmaskWarning
from unmask.options.sampling import HOTTEST, Dependence
from unmask.sampling.decoders.interleaved import every_nth
from unmask.sampling.decoders.measured import measured_information
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen
from unmask.tables.profile import MEASURE, Profile

USUAL_PASSES = 10


@dataclass(frozen=True)
class LeastDependent(RevealingDecoder):
    """Sets of blanks with little dependence; `profile` None: the model's own."""

    gamma: float = 1.0
    dependence: Dependence = "profile"
    profile: Profile | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        real("gamma", self.gamma, 0, HOTTEST)
        one_of("dependence", self.dependence, get_args(Dependence))
        if self.profile is not None:
            self.profile.check(self.target.model)
        if self._interleaves:
            warnings.warn(
                f"{self.target.model.name} has no dependence profile: blanks are interleaved; {MEASURE}",
                UnmaskWarning,
                stacklevel=3,
            )

    @cached_property
    def _profile(self) -> Profile | None:
        return self.profile or Profile.of(self.target.model)

    @property
    def _interleaves(self) -> bool:
        return self.dependence == "profile" and self._profile is None

    @property
    def steps(self) -> int:
        if self._interleaves and self.decoding_steps is None:
            return min(self.target.sites, USUAL_PASSES)
        return super().steps

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        if self._interleaves:
            return seen.blank & every_nth(self.target.sites, self.steps, seen.step).to(seen.blank.device)
        gamma = self.gamma if seen.left is None else torch.inf
        return independent_set(seen.entropy, seen.blank, self._information(seen), seen.share, gamma)

    def _information(self, seen: Seen) -> Float[Tensor, "n F F"]:
        if self.dependence == "measured":
            return measured_information(self.target, self.passes, seen.ids, seen.blank)
        assert self._profile is not None
        return self._profile.estimate(seen.entropy, self.target.free_positions)


def independent_set(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    most: Int[Tensor, " n"],
    gamma: float,
) -> Bool[Tensor, "n F"]:
    """At most `most` blank sites of each text, least dependent next, while the terms sum to gamma at most."""
    rows = torch.arange(len(entropy), device=entropy.device)
    free, chosen, near = blank.clone(), torch.zeros_like(blank), torch.zeros_like(entropy)
    site = torch.where(free, (information * free.unsqueeze(1)).sum(2), -torch.inf).argmax(1)
    going, spent = free.any(1), torch.zeros_like(entropy[:, 0])
    for taken in range(1, int(most.max()) + 1):
        chosen[rows, site] |= going
        free[rows, site] = False
        near = near + information[rows, :, site]
        term, site = torch.where(free, torch.minimum(entropy, near), torch.inf).min(1)
        spent = spent + term
        going = going & (spent <= gamma) & spent.isfinite() & (taken < most)
        if gamma < torch.inf and not bool(going.any()):
            break
    return chosen
