"""Least dependent next: fill blanks together that hardly depend on each other.

    I_ij   dependence of two blanks: by the model's profile (`unmask.tables.profile`), or measured (`measured_information`)

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
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import UnmaskWarning
from unmask.options.sampling import Dependence
from unmask.sampling.decoders.choosing import every_nth
from unmask.sampling.decoders.revealing import RevealingDecoder, Seen
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.token_draw import Proposal
from unmask.sampling.target import Target
from unmask.tables.profile import MEASURE, Profile

USUAL_PASSES = 10
FALL = 0.85
CANDIDATES = 8
MOST_NUMBERS = 2**25
"""Probabilities that `measured_information` holds at once."""


@dataclass(frozen=True)
class LeastDependent(RevealingDecoder):
    """Sets of blanks with little dependence; `profile` None: the model's own."""

    decoding_steps: int | None = None
    gamma: float = 0.1
    dependence: Dependence = "profile"
    profile: Profile | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
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
        information = self._information(seen)
        if seen.left is None:
            return set_under_bound(seen.entropy, seen.blank, information, self.gamma)
        return first_of_plan(seen.entropy, seen.blank, information, seen.left)

    def _information(self, seen: Seen) -> Float[Tensor, "n F F"]:
        if self.dependence == "measured":
            return measured_information(self.target, self.passes, seen.ids, seen.blank)
        assert self._profile is not None
        return self._profile.estimate(seen.entropy, self.target.free_positions)


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


def measured_information(
    target: Target, passes: Passes, ids: Int[Tensor, "n T"], blank: Bool[Tensor, "n F"]
) -> Float[Tensor, "n F F"]:
    """I of all pairs of blank sites of each text; 0 elsewhere and on the diagonal.

        I_ij = H(m_j) - sum_a q_i(a) H(q_j(. | x_i = a)),   m_j = sum_a q_i(a) q_j(. | x_i = a),   then (I_ij + I_ji) / 2

    a runs over the `CANDIDATES` likeliest tokens of i, q_i renormalised over them: one pass for each of them and each blank, and
    one more. This is for comparison with estimates that take no passes.
    """
    n, sites = blank.shape
    tokens = min(CANDIDATES, int(target.support.sum(1).min()))
    at_once = max(1, MOST_NUMBERS // (tokens * sites * target.model.vocab_size))
    found = torch.zeros((n, sites, sites), dtype=torch.float64, device=ids.device)
    for texts in torch.arange(n, device=ids.device).split(at_once):
        weight, tried = _log_q(target, passes, ids[texts]).topk(tokens, -1)
        weight = weight.softmax(-1)
        for site in range(sites):
            here = blank[texts, site].nonzero().flatten()
            if not len(here):
                continue
            rows = ids[texts[here]].repeat_interleave(tokens, 0)
            rows[:, target.free_positions[site]] = tried[here, site].flatten()
            q = _log_q(target, passes, rows).exp().unflatten(0, (len(here), tokens))
            share = weight[here, site]
            after = torch.einsum("na,naj->nj", share, torch.special.entr(q).sum(-1))
            found[texts[here], site] = torch.special.entr(torch.einsum("na,najv->njv", share, q)).sum(-1) - after
    both = blank.unsqueeze(1) & blank.unsqueeze(2) & ~torch.eye(sites, dtype=torch.bool, device=ids.device)
    return torch.where(both, (found + found.mT) / 2, 0.0).clamp(min=0)


def _log_q(target: Target, passes: Passes, ids: Int[Tensor, "m T"]) -> Float[Tensor, "m F V"]:
    """log q of every site over its allowed tokens."""
    logits = passes.logits(ids, target.free_positions.expand(len(ids), -1))
    support = target.support.repeat(len(ids), 1)
    return Proposal().log_weights(logits.flatten(0, 1), support).unflatten(0, (len(ids), target.sites))
