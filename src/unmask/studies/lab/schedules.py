"""Dependence between sites, and what it costs to unmask several of them at once: laws of texts,
with exact conditionals.

    H(A) = -E log p(x_A)                                        nats
    TC(B | A) = sum_{i in B} H(x_i | x_A) - H(x_B | x_A)
            conditional total correlation, at least 0

TC(B | A) = E KL( p(x_B | x_A) || prod_i p(x_i | x_A) ): it is zero exactly when one parallel
draw of B is a Gibbs step.

Fixed groups B_1, ..., B_T (the order does not depend on the values drawn):

    q(x) = prod_t prod_{i in B_t} p(x_i | x_{B_<t}),        KL(p || q) = sum_t TC(B_t | B_<t)

so the error of a schedule is the dependence inside its groups given what was drawn before, and
the best schedule of all can be found by dynamic programming over subsets. Orders that look at
the values drawn are enumerated instead.

A rule that chooses K from what is revealed, (S, x_S), draws K's tokens independently, and S
grows by K until nothing is hidden:

    law(x) = prod_t prod_{i in K_t} p(x_i | x_{S_t}),
            KL(p || law) = sum_t E TC(X_{K_t} | x_{S_t})

the expectation under p. TC(K) <= sum of the entropies of K - the largest: the bound that
`entropy_bound` keeps under gamma, loose by all that is independent. Pairwise informations do
not bound TC: three fair bits of even parity are pairwise independent and have TC = ln 2; three
bits that agree have conditional informations 0 given the third, and TC = 2 ln 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import entr, rel_entr

from unmask.studies.lab.dynamics import MaskLaw, parallel_step, product_conditional, uniform_masks
from unmask.studies.lab.model import LabModel, Vector, table_model

Sites = tuple[int, ...]
Grouping = tuple[Sites, ...]
Order = Literal["sure site", "sure token"]
Text = tuple[int | None, ...]
"""A value per site, None where it is hidden."""


class Entropies:
    """H of any set of sites of a model; each set is summed once."""

    def __init__(self, model: LabModel) -> None:
        self.cells = model.p.reshape(model.space.sizes)
        self.sites = model.space.sites
        self._known: dict[frozenset[int], float] = {frozenset(): 0.0}

    def __call__(self, sites: Iterable[int]) -> float:
        """H(x_A)."""
        key = frozenset(sites)
        if key not in self._known:
            self._known[key] = float(
                entr(self.cells.sum(axis=tuple(i for i in range(self.sites) if i not in key))).sum()
            )
        return self._known[key]

    def conditional(self, sites: Iterable[int], context: Iterable[int]) -> float:
        """H(x_A | x_C)."""
        context = frozenset(context)
        return self(context.union(sites)) - self(context)

    def total_correlation(self, block: Iterable[int], context: Iterable[int] = ()) -> float:
        """TC(B | A); of two sites their mutual information."""
        block, context = frozenset(block), frozenset(context)
        return sum(self.conditional((i,), context) for i in block) - self.conditional(
            block, context
        )


def pair_information(model: LabModel) -> float:
    """Mean mutual information of two sites, in nats."""
    entropies = Entropies(model)
    return float(
        np.mean(
            [
                entropies.total_correlation(pair)
                for pair in combinations(range(model.space.sites), 2)
            ]
        )
    )


def masked_total_correlation(model: LabModel, law: MaskLaw) -> float:
    """E_K TC(x_K | x_{-K}): what a factorised head loses per step, for masks that do not look
    at x.
    """
    entropies, everything = Entropies(model), frozenset(range(model.space.sites))
    losses = [entropies.total_correlation(mask, everything.difference(mask)) for mask in law.masks]
    return float(np.dot(law.probability[:, 0], losses))


def masked_cross_entropy(model: LabModel, k: int) -> float:
    """E_{|K|=k} sum_{i in K} H(x_i | x_{-K}): the least that the factorised loss can be."""
    entropies, everything, masks = (
        Entropies(model),
        frozenset(range(model.space.sites)),
        model.space.masks(k),
    )
    return float(
        np.mean(
            [
                sum(entropies.conditional((i,), everything.difference(mask)) for i in mask)
                for mask in masks
            ]
        )
    )


def kl(p: Vector, q: Vector) -> float:
    """KL(p || q) in nats."""
    return float(rel_entr(p, q).sum())


def even_sizes(sites: int, steps: int) -> tuple[int, ...]:
    """How many sites each of `steps` steps draws: as even as possible, larger groups last (more
    is known by then).
    """
    return tuple(sites // steps + (t >= steps - sites % steps) for t in range(steps))


def contiguous(sites: int, steps: int) -> Grouping:
    """Runs of neighbours, left to right."""
    ends = np.cumsum((0, *even_sizes(sites, steps)))
    return tuple(tuple(range(a, b)) for a, b in zip(ends, ends[1:], strict=False))


def spread(sites: int, steps: int) -> Grouping:
    """Sites of one group as far apart as possible: every steps-th site."""
    return tuple(sorted((tuple(range(t, sites, steps)) for t in range(steps)), key=len))


def shuffled(sites: int, steps: int, generator: np.random.Generator) -> Grouping:
    """A random order of the sites, cut into even groups."""
    order = generator.permutation(sites)
    return tuple(tuple(int(order[i]) for i in group) for group in contiguous(sites, steps))


def unmasking_law(model: LabModel, schedule: Grouping) -> Vector:
    """q(x), (S,): the law of texts unmasked group by group; every site must be in exactly one
    group.
    """
    space, law = model.space, np.ones(model.space.states)
    hidden = set(range(space.sites))
    for group in schedule:
        later = tuple(sorted(hidden.difference(group)))
        visible = space.sum_over(later, model.p)
        law = law * product_conditional(space, visible, tuple(sorted(group)))
        hidden.difference_update(group)
    return law


def schedule_cost(entropies: Entropies, schedule: Grouping) -> list[float]:
    """TC(B_t | B_<t) for each step; their sum is KL(p || q)."""
    drawn = [[i for earlier in schedule[:t] for i in earlier] for t in range(len(schedule))]
    return [
        entropies.total_correlation(group, before)
        for group, before in zip(schedule, drawn, strict=True)
    ]


def best_schedules(model: LabModel) -> list[tuple[float, Grouping]]:
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
    costs = [{0: 0.0}]
    groups: list[dict[int, int]] = [{}]  # by step and A: the last group B
    for _ in range(sites):
        before, cost, last = costs[-1], dict[int, float](), dict[int, int]()
        for (drawn, group), correlation in correlations.items():
            if drawn not in before:
                continue
            total, after = before[drawn] + correlation, drawn | group
            if after not in cost or total < cost[after] - ROUNDING:
                cost[after], last[after] = total, group
        costs.append(cost)
        groups.append(last)
    everything = (1 << sites) - 1
    return [
        (costs[steps][everything], _path(groups, steps, everything))
        for steps in range(1, sites + 1)
    ]


ROUNDING = 1e-13
"""Costs of schedules that differ by less are equal, in nats."""


def _correlations_by_step(model: LabModel) -> dict[tuple[int, int], float]:
    """TC(B | A) for all disjoint sets of sites A and B, B not empty; a set is a number whose
    bits are its sites.
    """
    sites, entropies = model.space.sites, Entropies(model)
    sets = range(1 << sites)
    entropy = [entropies(_members(number)) for number in sets]
    found: dict[tuple[int, int], float] = {}
    for drawn in sets:
        hidden = [1 << site for site in range(sites) if not drawn >> site & 1]
        alone = {bit: entropy[drawn | bit] - entropy[drawn] for bit in hidden}  # H(x_i | x_A)
        sums = {0: 0.0}  # of `alone` over the sites of B
        for bit in hidden:
            sums |= {group | bit: total + alone[bit] for group, total in sums.items()}
        for group, total in sums.items():
            if group:
                found[drawn, group] = total - (entropy[drawn | group] - entropy[drawn])
    return found


def _members(number: int) -> Sites:
    """The sites of a set."""
    return tuple(site for site in range(number.bit_length()) if number >> site & 1)


def _path(groups: list[dict[int, int]], steps: int, drawn: int) -> Grouping:
    """The groups of the best schedule of the sites `drawn`, the first one first."""
    path: list[Sites] = []
    for step in range(steps, 0, -1):
        group = groups[step][drawn]
        path.append(_members(group))
        drawn ^= group
    return tuple(reversed(path))


@dataclass(frozen=True)
class Seen:
    """A partly revealed text: its hidden sites, their joint given what is revealed, and the
    probability of that.
    """

    hidden: Sites
    joint: Float[np.ndarray, " *values"]
    chance: float

    @classmethod
    def of(cls, model: LabModel, text: Text) -> Seen:
        """Tokens that are impossible under p say nothing: the rest is then uniform."""
        rest = model.p.reshape(model.space.sizes)[
            tuple(slice(None) if v is None else v for v in text)
        ]
        chance = float(rest.sum())
        joint = rest / chance if chance > 0 else np.full(rest.shape, 1 / rest.size)
        return cls(tuple(i for i, value in enumerate(text) if value is None), joint, chance)

    def marginal(self, *places: int) -> Float[np.ndarray, " *values"]:
        """The joint of some of the hidden sites, by their places in `hidden`."""
        return np.asarray(
            self.joint.sum(axis=tuple(i for i in range(len(self.hidden)) if i not in places))
        )

    def entropy(self, *places: int) -> float:
        """H of some of the hidden sites."""
        return float(entr(self.marginal(*places)).sum())

    def total_correlation(self, places: Sites) -> float:
        """TC given what is revealed."""
        return sum(self.entropy(i) for i in places) - self.entropy(*places)

    def entropy_bound(self, places: Sites) -> float:
        """The sum of the entropies minus the largest."""
        each = [self.entropy(i) for i in places]
        return sum(each) - max(each)


Rule = Callable[[Seen], Sites]
"""Places in `hidden` of the sites to draw next; at least one."""


def greedy_law(model: LabModel, steps: int, order: Order) -> Vector:
    """The law of texts unmasked by confidence, in even groups: every masked site is drawn, the
    most probable are kept.

    "sure site" ranks sites by max_v p(x_i = v | visible), known before anything is drawn; "sure
    token" ranks by the probability of the token that was drawn, as mask-predict does. Ties go
    to the site on the left.
    """
    space = model.space
    partial: dict[Text, float] = {(None,) * space.sites: 1.0}
    for keep in even_sizes(space.sites, steps):
        reached: dict[Text, float] = {}
        for text, chance in partial.items():
            for values, probability in _surest(Seen.of(model, text), keep, order).items():
                key = _filled(text, values)
                reached[key] = reached.get(key, 0.0) + chance * probability
        partial = reached
    return _law(model, partial)


def _filled(text: Text, values: Iterable[tuple[int, int]]) -> Text:
    """The text with these (site, value)."""
    at = dict(values)
    return tuple(at.get(site, value) for site, value in enumerate(text))


def _law(model: LabModel, whole: Mapping[Text, float]) -> Vector:
    """The probabilities of whole texts, in the order of the states."""
    law = np.zeros(model.space.sizes)
    for text, chance in whole.items():
        law[tuple(v for v in text if v is not None)] = chance
    return law.ravel()


def _surest(seen: Seen, keep: int, order: Order) -> dict[tuple[tuple[int, int], ...], float]:
    """Probability of each way to keep `keep` of the hidden sites, as ((site, value), ...)."""
    hidden, marginals = seen.hidden, [seen.marginal(i) for i in range(len(seen.hidden))]
    drawn = np.indices([len(m) for m in marginals]).reshape(len(hidden), -1)
    each = np.stack([m[v] for m, v in zip(marginals, drawn, strict=True)])
    sure = (
        each
        if order == "sure token"
        else np.repeat([[m.max()] for m in marginals], drawn.shape[1], axis=1)
    )
    first = np.sort(np.argsort(-np.round(sure, 12), axis=0, kind="stable")[:keep], axis=0)
    values = np.take_along_axis(drawn, first, axis=0)
    out: dict[tuple[tuple[int, int], ...], float] = {}
    for column, chance in enumerate(each.prod(0)):
        key = tuple(
            (hidden[i], int(v)) for i, v in zip(first[:, column], values[:, column], strict=True)
        )
        out[key] = out.get(key, 0.0) + float(chance)
    return out


def mask_predict_law(model: LabModel, steps: int) -> Vector:
    """All sites drawn in parallel, then steps - 1 parallel redraws of N (T - t) / T sites
    chosen at random.
    """
    space = model.space
    law = product_conditional(space, model.p, tuple(range(space.sites)))
    for t in range(1, steps):
        masked = max(1, round(space.sites * (steps - t) / steps))
        law = law @ parallel_step(model, uniform_masks(space, masked))
    return np.asarray(law)


@dataclass(frozen=True)
class Decoded:
    """The law of a rule; under p: the expected sum of total correlations, that of its bound by
    entropies, and the passes.
    """

    law: Vector
    cost: float
    bound: float
    passes: float


def decoded(model: LabModel, rule: Rule) -> Decoded:
    """Follow a rule through all texts."""
    cost = bound = passes = 0.0
    waiting: list[tuple[Text, float]] = [((None,) * model.space.sites, 1.0)]
    whole: dict[Text, float] = {}
    while waiting:
        text, drawn = waiting.pop()
        if None not in text:
            whole[text] = drawn
            continue
        seen = Seen.of(model, text)
        places = rule(seen)
        cost += seen.chance * seen.total_correlation(places)
        bound += seen.chance * seen.entropy_bound(places)
        passes += seen.chance
        sites, marginals = [seen.hidden[i] for i in places], [seen.marginal(i) for i in places]
        for values in product(*(np.flatnonzero(marginal).tolist() for marginal in marginals)):
            share = drawn * float(np.prod([m[v] for m, v in zip(marginals, values, strict=True)]))
            waiting.append((_filled(text, zip(sites, values, strict=True)), share))
    return Decoded(_law(model, whole), cost, bound, passes)


def every(m: int) -> Rule:
    """Every m-th site, offsets in the order of their reversed bits (m is a power of two); for m
    = 1 all at once, the product.
    """
    bits = max(1, (m - 1).bit_length())
    rank = {offset: int(f"{offset:0{bits}b}"[::-1], 2) for offset in range(m)}

    def rule(seen: Seen) -> Sites:
        first = min(rank[i % m] for i in seen.hidden)
        return tuple(place for place, i in enumerate(seen.hidden) if rank[i % m] == first)

    return rule


def lowest_entropy(count: int) -> Rule:
    """The `count` sites of lowest entropy."""
    return lambda seen: tuple(sorted(range(len(seen.hidden)), key=seen.entropy)[:count])


def entropy_bound(gamma: float) -> Rule:
    """As many sites of lowest entropy as keep the sum of entropies minus the largest at most
    `gamma`.
    """

    def rule(seen: Seen) -> Sites:
        order = sorted(range(len(seen.hidden)), key=seen.entropy)
        each = np.array([seen.entropy(i) for i in order])
        return tuple(order[: max(1, int((np.cumsum(each) - each <= gamma + 1e-12).sum()))])

    return rule


def least_dependent(gamma: float) -> Rule:
    """Least dependent next, by the pairwise informations: while their sum, at most the entropy
    of each site, is under gamma.
    """

    def rule(seen: Seen) -> Sites:
        n = len(seen.hidden)
        pairs = np.zeros((n, n))
        for a, b in combinations(range(n), 2):
            pairs[a, b] = pairs[b, a] = seen.total_correlation((a, b))
        chosen, spent = [int(pairs.sum(1).round(12).argmax())], 0.0
        while len(chosen) < n:
            terms = {
                i: min(seen.entropy(i), float(pairs[i, chosen].sum()))
                for i in range(n)
                if i not in chosen
            }
            best = min(terms, key=lambda i: round(terms[i], 12))
            spent += terms[best]
            if spent > gamma + 1e-12:
                break
            chosen.append(best)
        return tuple(sorted(chosen))

    return rule


def even_parity() -> LabModel:
    """Three fair bits whose sum is even."""
    return table_model(
        [[[(1 - (a + b + c) % 2) / 4 for c in (0, 1)] for b in (0, 1)] for a in (0, 1)],
        "even parity",
    )


def agreement() -> LabModel:
    """Three fair bits that are equal."""
    return table_model(
        [[[float(a == b == c) / 2 for c in (0, 1)] for b in (0, 1)] for a in (0, 1)], "agreement"
    )
