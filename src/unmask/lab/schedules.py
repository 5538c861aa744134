"""The law of texts whose N sites are unmasked in T parallel steps, with exact conditionals.

Fixed groups B_1, ..., B_T (the order does not depend on the values drawn):

    q(x) = prod_t prod_{i in B_t} p(x_i | x_{B_<t}),        KL(p || q) = sum_t TC(B_t | B_<t)

so the error of a schedule is the dependence inside its groups given what was drawn before, and a schedule that groups
sites wisely can be found by dynamic programming over subsets. Orders that look at the values drawn are enumerated instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import rel_entr

from unmask.errors import InputError
from unmask.lab.correlation import Entropies
from unmask.lab.dynamics import parallel_step, product_conditional, uniform_masks
from unmask.lab.model import LabModel, Vector

Grouping = tuple[tuple[int, ...], ...]
Order = Literal["sure site", "sure token"]


def kl(p: Vector, q: Vector) -> float:
    """KL(p || q) in nats."""
    return float(rel_entr(p, q).sum())


def even_sizes(sites: int, steps: int) -> tuple[int, ...]:
    """How many sites each of `steps` steps draws: as even as possible, larger groups last (more is known by then)."""
    if not 1 <= steps <= sites:
        raise InputError(f"{steps} steps for {sites} sites: use 1 to {sites}")
    return tuple(sites // steps + (t >= steps - sites % steps) for t in range(steps))


def contiguous(sites: int, steps: int) -> Grouping:
    """Runs of neighbours, left to right."""
    ends = np.cumsum((0, *even_sizes(sites, steps)))
    return tuple(tuple(range(a, b)) for a, b in zip(ends, ends[1:], strict=False))


def spread(sites: int, steps: int) -> Grouping:
    """Sites of one group as far apart as possible: every steps-th site."""
    groups = sorted((tuple(range(t, sites, steps)) for t in range(steps)), key=len)
    return tuple(groups)


def shuffled(sites: int, steps: int, generator: np.random.Generator) -> Grouping:
    """A random order of the sites, cut into even groups."""
    order = generator.permutation(sites)
    return tuple(tuple(int(order[i]) for i in group) for group in contiguous(sites, steps))


def check_schedule(model: LabModel, schedule: Grouping) -> None:
    """Every site must be drawn exactly once."""
    drawn = sorted(i for group in schedule for i in group)
    if drawn != list(range(model.space.sites)):
        raise InputError(
            f"schedule {[list(g) for g in schedule]} must name each site from 0 to {model.space.sites - 1} exactly once"
        )


def unmasking_law(model: LabModel, schedule: Grouping) -> Vector:
    """q(x), (S,): the law of texts unmasked group by group."""
    check_schedule(model, schedule)
    space, law = model.space, np.ones(model.space.states)
    hidden = set(range(space.sites))
    for group in schedule:
        later = tuple(sorted(hidden.difference(group)))
        visible = space.sum_over(later, model.p)
        law = law * product_conditional(space, visible, tuple(sorted(group)))
        hidden.difference_update(group)
    return law


def schedule_cost(model: LabModel, schedule: Grouping, entropies: Entropies | None = None) -> list[float]:
    """TC(B_t | B_<t) for each step; their sum is KL(p || q)."""
    check_schedule(model, schedule)
    entropies = entropies or Entropies(model)
    drawn: set[int] = set()
    costs = []
    for group in schedule:
        costs.append(entropies.total_correlation(group, drawn))
        drawn.update(group)
    return costs


def extreme_schedule(model: LabModel, steps: int, worst: bool = False) -> tuple[float, Grouping]:
    """The schedule of even groups with the least (or greatest) KL(p || q), by dynamic programming over what is drawn."""
    sites, sign = model.space.sites, -1.0 if worst else 1.0
    entropies = Entropies(model)
    best: dict[frozenset[int], tuple[float, Grouping]] = {frozenset(): (0.0, ())}
    for size in even_sizes(sites, steps):
        reached: dict[frozenset[int], tuple[float, Grouping]] = {}
        for drawn, (cost, path) in best.items():
            for group in combinations([i for i in range(sites) if i not in drawn], size):
                total = cost + sign * entropies.total_correlation(group, drawn)
                key = drawn.union(group)
                if key not in reached or total < reached[key][0]:
                    reached[key] = (total, (*path, group))
        best = reached
    cost, schedule = best[frozenset(range(sites))]
    return sign * cost, schedule


def greedy_law(model: LabModel, steps: int, order: Order) -> Vector:
    """The law of texts unmasked by confidence, in even groups: every masked site is drawn, the most probable are kept.

    "sure site" ranks sites by max_v p(x_i = v | visible), known before anything is drawn; "sure token" ranks by the
    probability of the token that was drawn, as mask-predict does. Ties go to the site on the left.
    """
    space = model.space
    partial: dict[tuple[int | None, ...], float] = {(None,) * space.sites: 1.0}
    cells = model.p.reshape(space.sizes)
    for keep in even_sizes(space.sites, steps):
        reached: dict[tuple[int | None, ...], float] = {}
        for text, chance in partial.items():
            hidden = [i for i, v in enumerate(text) if v is None]
            marginals = _masked_marginals(cells, text, hidden)
            for kept, probability in _kept(hidden, marginals, keep, order).items():
                filled = list(text)
                for site, value in kept:
                    filled[site] = value
                key = tuple(filled)
                reached[key] = reached.get(key, 0.0) + chance * probability
        partial = reached
    law = np.zeros(space.sizes)
    for text, chance in partial.items():
        law[tuple(v for v in text if v is not None)] = chance
    return law.ravel()


def _masked_marginals(
    cells: Float[np.ndarray, ...], text: Sequence[int | None], hidden: list[int]
) -> list[Float[np.ndarray, " _"]]:
    rest = cells[tuple(slice(None) if v is None else v for v in text)]
    rest = rest / rest.sum()
    return [rest.sum(axis=tuple(j for j in range(len(hidden)) if j != i)) for i in range(len(hidden))]


def _kept(
    hidden: list[int], marginals: list[Float[np.ndarray, " _"]], keep: int, order: Order
) -> dict[tuple[tuple[int, int], ...], float]:
    """Probability of each way to keep `keep` of the hidden sites, as ((site, value), ...)."""
    n = len(hidden)
    drawn = np.indices([len(m) for m in marginals]).reshape(n, -1)
    each = np.stack([m[v] for m, v in zip(marginals, drawn, strict=True)])
    sure = each if order == "sure token" else np.repeat([[m.max()] for m in marginals], drawn.shape[1], axis=1)
    first = np.sort(np.argsort(-np.round(sure, 12), axis=0, kind="stable")[:keep], axis=0)
    values = np.take_along_axis(drawn, first, axis=0)
    out: dict[tuple[tuple[int, int], ...], float] = {}
    for column, chance in enumerate(each.prod(0)):
        key = tuple((hidden[i], int(v)) for i, v in zip(first[:, column], values[:, column], strict=True))
        out[key] = out.get(key, 0.0) + float(chance)
    return out


def mask_predict_law(model: LabModel, steps: int) -> Vector:
    """All sites drawn in parallel, then steps - 1 parallel redraws of N (T - t) / T sites chosen at random."""
    space = model.space
    if steps < 1:
        raise InputError(f"{steps} steps: use at least 1")
    law = product_conditional(space, model.p, tuple(range(space.sites)))
    for t in range(1, steps):
        masked = max(1, round(space.sites * (steps - t) / steps))
        law = law @ parallel_step(model, uniform_masks(space, masked))
    return np.asarray(law)
