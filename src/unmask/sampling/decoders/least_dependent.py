"""Blanks that hardly depend on each other, filled together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.common.warn import warn
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.decoders.interleaved import every_nth
from unmask.sampling.decoders.revealing import Bounded, Observed

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.on_target import DecoderOnTarget
    from unmask.tables.profile import DependenceProfile

USUAL_PASSES = 10
"""Passes, where neither a profile nor a number of passes is given."""
FALL = 0.85
"""The weight by which a plan prefers later sets."""
TIES = 64
"""How much more dependence counts than entropy in sets that are verified."""


@method
class Profiled(Decoder):
    """A decoder that reads a dependence profile.

    Parameters:
        profile: Dependence by distance: a file of `unmask profile` [default: the model's own].
    """

    profile: Annotated[Any, Written(metavar="PATH")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.profile is not None:
            from unmask.tables.profile import as_profile

            object.__setattr__(self, "profile", as_profile("profile", self.profile))


@method
class LeastDependent(Profiled, Bounded):
    """A new text: blanks filled together that hardly depend on each other.

        I_ij   dependence of two blanks: by the model's profile (`unmask.tables.profile`)

    With a bound: begin with the blank of the largest sum of I, and add the blank with the smallest
    next term

        min(H_i, sum of I_ij over the blanks j taken)     while the terms sum to gamma at most.

    The sum estimates the total correlation that one pass loses; it is not a bound. gamma = 0 gives
    one blank per pass unless I is 0.

    With a number of passes r: plan all of them, fill one set of the plan, and plan again after the
    pass. The plan parts the blanks into r sets of equal size, so that no pass is left with blanks
    that depend on each other: blanks in the order of their sums of I, largest first, each into the
    set with room where FALL^k times its term is smallest, k = 0 ... r-1 the number of the set. The
    set with the blank of lowest entropy is filled first.

    Without a profile the blanks are interleaved.

    >>> decoder = unmask.LeastDependent(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('least-dependent', 2)
    """

    name = "least-dependent"
    label = "least dependent"
    colour = "#004488"
    place = 13
    step_passes = "`passes`, or as many as `gamma` needs, at most T"
    chooses = (
        "blanks whose estimated dependence on each other sums to gamma at most, least dependent"
        " next"
    )
    usual_bound: ClassVar[float] = 0.1

    def prepare(self, on: DecoderOnTarget) -> DependenceProfile | None:
        """The profile; None if the model has none."""
        from unmask.tables.profile import MEASURE, DependenceProfile

        if self.profile is not None:
            self.profile.check(on.target.model)
            given: DependenceProfile = self.profile
            return given
        profile = DependenceProfile.of(on.target.model)
        if profile is None and self.gamma is not None:
            raise InputError(
                f"bounds what a dependence profile estimates, and {on.target.model.name} has none",
                argument="gamma",
                use=f"{MEASURE}, or leave it out",
            )
        if profile is None:
            warn(
                f"{on.target.model.name} has no dependence profile: blanks are interleaved;"
                f" {MEASURE}"
            )
        return profile

    def steps(self, on: DecoderOnTarget) -> int:
        """As many as there are blanks, at most; without a profile a number of them."""
        if on.prepared is None and self.passes is None:
            return min(on.target.sites, USUAL_PASSES)
        return super().steps(on)

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """A set of blanks with little dependence on each other."""
        if on.prepared is None:
            filled = every_nth(on.target.sites, self.steps(on), observed.step)
            return observed.blank & filled.to(observed.blank.device)
        information = self._information(on, observed)
        if observed.passes_left is None:
            return set_under_bound(observed.entropy, observed.blank, information, self.limit)
        return first_of_plan(observed.entropy, observed.blank, information, observed.passes_left)

    def ranked(self, on: DecoderOnTarget, observed: Observed) -> Int[Tensor, "n F"]:
        """The place of each site in the next set that is verified, which loses nothing by
        dependence; the number of sites outside it. First is the surest blank, then those that
        depend least on it; without a profile, the lowest entropy is first.
        """
        if on.prepared is not None:
            information = self._information(on, observed)
            return surest_and_least_dependent(
                observed.entropy, observed.blank, information, observed.share
            )
        if observed.passes_left == 1:
            chosen = observed.blank
        else:
            chosen = self.choose(on, observed)
        entropy = torch.where(chosen, observed.entropy, torch.inf)
        ranks = entropy.argsort(dim=1, stable=True).argsort(dim=1)
        return torch.where(chosen, ranks, chosen.shape[1])

    def _information(self, on: DecoderOnTarget, observed: Observed) -> Float[Tensor, "n F F"]:
        """I_ij of each text."""
        positions = on.target.free_positions.to(observed.entropy.device)
        information: Tensor = on.prepared.estimate(observed.entropy, positions)
        return information


def set_under_bound(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    gamma: float,
) -> Bool[Tensor, "n F"]:
    """Blank sites of each text, least dependent next, while the terms sum to gamma at most."""
    rows = torch.arange(len(entropy), device=entropy.device)
    free = blank.clone()
    chosen = torch.zeros_like(blank)
    near = torch.zeros_like(entropy)  # of each site, the sum of I over the chosen ones
    sums = (information * free.unsqueeze(1)).sum(2)
    site = torch.where(free, sums, -torch.inf).argmax(1)
    going = free.any(1)  # texts whose next term may still be spent
    spent = torch.zeros_like(entropy[:, 0])
    while bool(going.any()):
        chosen[rows, site] |= going
        free[rows, site] = False
        near = near + information[rows, :, site]
        term, site = torch.where(free, torch.minimum(entropy, near), torch.inf).min(1)
        spent = spent + term
        going = going & (spent <= gamma)
    return chosen


def surest_and_least_dependent(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    size: Int[Tensor, "n 1"],
) -> Int[Tensor, "n F"]:
    """The place of each blank in a set K of `size` blanks; the number of sites outside it.

    Next is the blank i of least H_i + TIES min(H_i, sum_{j in K} I_ij): of those that hardly
    depend on K, the surest.
    """
    rows = torch.arange(len(entropy), device=entropy.device)
    free = blank.clone()
    near = torch.zeros_like(entropy)  # of each site, the sum of I over K
    places = torch.full_like(blank, blank.shape[1], dtype=torch.long)
    for place in range(int(size.max())):
        cost = torch.where(free, entropy + TIES * torch.minimum(near, entropy), torch.inf)
        site = cost.argmin(1)
        places[rows, site] = torch.where(size[:, 0] > place, place, places[rows, site])
        free[rows, site] = False
        near = near + information[rows, :, site]
    return places


def first_of_plan(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    passes: int,
) -> Bool[Tensor, "n F"]:
    """The set that a plan of `passes` sets fills first; sizes are equal, or larger by 1 in
    later sets.
    """
    sums = torch.where(blank, (information * blank.unsqueeze(1)).sum(2), -torch.inf)
    order = sums.argsort(dim=1, descending=True, stable=True)
    across = order.unsqueeze(1).expand_as(information)
    information = information.gather(1, across.mT).gather(2, across)  # both axes in the order
    ordered = entropy.gather(1, order)
    sets = torch.arange(passes, device=blank.device)
    count = blank.sum(1, keepdim=True)
    room = (count + sets) // passes  # blanks that each set can still take
    weight = FALL ** sets.double()
    # of each set, the sum of I of every site over the blanks in it
    near = torch.zeros((*room.shape, blank.shape[1]), dtype=entropy.dtype, device=blank.device)
    places = torch.zeros_like(order)  # the set of each site, in the order
    one_less = torch.full_like(count, -1)
    for place in range(int(count.max())):  # blanks come first in the order
        of_site = slice(place, place + 1)
        term = torch.minimum(near[:, :, place], ordered[:, of_site]) * weight
        chosen = term.masked_fill_(room <= 0, torch.inf).argmin(1, keepdim=True)
        room.scatter_add_(1, chosen, one_less)
        whole_set = chosen.unsqueeze(2).expand(-1, -1, near.shape[2])
        near.scatter_add_(1, whole_set, information[:, of_site])
        places[:, of_site] = chosen
    number = torch.zeros_like(order).scatter(1, order, places)
    first = torch.where(blank, entropy, torch.inf).argmin(1, keepdim=True)
    return blank & (number == number.gather(1, first))
