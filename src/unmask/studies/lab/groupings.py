"""Unmasking in groups of sites that are fixed beforehand: laws, costs, and the best groups.

For groups B_1, ..., B_T, whose order does not depend on the values drawn,

    q(x) = prod_t prod_{i in B_t} p(x_i | x_{B_<t}),        KL(p || q) = sum_t TC(B_t | B_<t)

so the error of a schedule is the dependence inside its groups given what was drawn before, and
the best schedule of all can be found by dynamic programming over subsets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from unmask.studies.lab.dynamics import product_conditional
from unmask.studies.lab.entropies import Entropies
from unmask.studies.lab.model import LabModel, Vector

Sites = tuple[int, ...]
Grouping = tuple[Sites, ...]
"""Groups of sites, the first drawn first."""
SiteSet = int
"""A set of sites as a number: bit i is 1 if site i is in it."""
ROUNDING = 1e-13
"""Costs of schedules that differ by less are equal, in nats."""


def even_sizes(sites: int, steps: int) -> tuple[int, ...]:
    """How many sites each of `steps` steps draws: as even as possible. Larger groups come last,
    when more is known.
    """
    smaller, left_over = divmod(sites, steps)
    first_larger = steps - left_over
    return tuple(smaller + (step >= first_larger) for step in range(steps))


def contiguous(sites: int, steps: int) -> Grouping:
    """Runs of neighbours, left to right."""
    ends = np.cumsum((0, *even_sizes(sites, steps)))
    return tuple(tuple(range(first, last)) for first, last in pairwise(ends))


def spread(sites: int, steps: int) -> Grouping:
    """Sites of one group as far apart as possible: every steps-th site."""
    groups = [tuple(range(first, sites, steps)) for first in range(steps)]
    return tuple(sorted(groups, key=len))


def shuffled(sites: int, steps: int, generator: np.random.Generator) -> Grouping:
    """A random order of the sites, cut into even groups."""
    order = generator.permutation(sites)
    return tuple(tuple(int(order[i]) for i in group) for group in contiguous(sites, steps))


def unmasking_law(model: LabModel, schedule: Grouping) -> Vector:
    """q(x), (S,): the law of texts unmasked group by group. Every site must be in exactly one
    group.
    """
    space = model.space
    law = np.ones(space.states)
    hidden = set(range(space.sites))
    for group in schedule:
        later = tuple(sorted(hidden.difference(group)))
        visible = space.sum_over(later, model.p)
        law = law * product_conditional(space, visible, tuple(sorted(group)))
        hidden.difference_update(group)
    return law


def schedule_cost(entropies: Entropies, schedule: Grouping) -> list[float]:
    """TC(B_t | B_<t) for each step. Their sum is KL(p || q)."""
    costs = []
    drawn: list[int] = []
    for group in schedule:
        costs.append(entropies.total_correlation(group, drawn))
        drawn.extend(group)
    return costs


class BestSchedule(NamedTuple):
    """A schedule of the least cost, in nats, for its number of groups."""

    cost: float
    groups: Grouping


def best_schedules(model: LabModel) -> list[BestSchedule]:
    """For T = 1, ..., N steps the least KL(p || q) of all schedules of T groups of any sizes,
    and a schedule that has it.

    Dynamic programming over what is drawn: with A the sites drawn in the first t steps,

        cost_t(A) = min over groups B in A, B not empty, of  cost_{t-1}(A - B) + TC(B | A - B),
                cost_0 of no site = 0

    in 3^N additions for each t. Of schedules whose costs differ by rounding alone the first in
    this order is kept: A by the binary number of its sites, A - B likewise.
    """
    sites = model.space.sites
    correlations = _correlations_by_step(model)
    costs: list[dict[SiteSet, float]] = [{0: 0.0}]  # by t and A
    last_groups: list[dict[SiteSet, SiteSet]] = [{}]  # by t and A: the group B of step t
    for _ in range(sites):
        before = costs[-1]
        cost: dict[SiteSet, float] = {}
        last: dict[SiteSet, SiteSet] = {}
        for (drawn, group), correlation in correlations.items():
            if drawn not in before:  # these steps cannot have drawn just this set
                continue
            total = before[drawn] + correlation
            after = drawn | group
            if after not in cost or total < cost[after] - ROUNDING:
                cost[after] = total
                last[after] = group
        costs.append(cost)
        last_groups.append(last)
    every_site = (1 << sites) - 1
    return [
        BestSchedule(
            cost=costs[steps][every_site], groups=_groups_of(last_groups, steps, every_site)
        )
        for steps in range(1, sites + 1)
    ]


def _correlations_by_step(model: LabModel) -> dict[tuple[SiteSet, SiteSet], float]:
    """TC(B | A) by (A, B), for all disjoint sets of sites A and B, B not empty."""
    sites = model.space.sites
    entropies = Entropies(model)
    entropy = [entropies(_members(number)) for number in range(1 << sites)]
    correlations: dict[tuple[SiteSet, SiteSet], float] = {}
    for drawn in range(1 << sites):
        hidden = [1 << site for site in range(sites) if not drawn >> site & 1]
        alone = {bit: entropy[drawn | bit] - entropy[drawn] for bit in hidden}  # H(x_i | x_A)
        sums = {0: 0.0}  # by B: of `alone` over its sites
        for bit in hidden:
            with_bit = {group | bit: total + alone[bit] for group, total in sums.items()}
            sums |= with_bit
        for group, total in sums.items():
            if group:
                joint = entropy[drawn | group] - entropy[drawn]  # H(x_B | x_A)
                correlations[drawn, group] = total - joint
    return correlations


def _members(number: SiteSet) -> Sites:
    """The sites of a set, in ascending order."""
    return tuple(site for site in range(number.bit_length()) if number >> site & 1)


def _groups_of(last_groups: list[dict[SiteSet, SiteSet]], steps: int, drawn: SiteSet) -> Grouping:
    """The groups of the best schedule that draws just `drawn` in `steps` steps."""
    backwards: list[Sites] = []
    for step in range(steps, 0, -1):
        group = last_groups[step][drawn]
        backwards.append(_members(group))
        drawn ^= group
    return tuple(reversed(backwards))
