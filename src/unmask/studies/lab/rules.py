"""Rules that choose positions before tokens: their laws and what they lose.

A rule chooses K from what is revealed, (S, x_S), draws K's tokens independently, and S grows by
K until nothing is hidden:

    law(x) = prod_t prod_{i in K_t} p(x_i | x_{S_t}),
            KL(p || law) = sum_t E TC(X_{K_t} | x_{S_t})

the expectation under p. TC(K) <= sum of the entropies of K - the largest: the bound that
`entropy_bound` keeps under gamma, loose by all that is independent. Pairwise informations do
not bound TC: three fair bits of even parity are pairwise independent and have TC = ln 2; three
bits that agree have conditional informations 0 given the third, and TC = 2 ln 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from unmask.studies.lab.hidden_sites import (
    HiddenSites,
    PartialText,
    Places,
    all_hidden,
    law_of_texts,
    revealed,
)
from unmask.studies.lab.model import LabModel, Vector

Rule = Callable[[HiddenSites], Places]
"""The hidden sites to draw next; at least one."""
ROUNDING = 1e-12
"""Sums in nats that exceed gamma by less still keep it."""


@dataclass(frozen=True)
class Decoded:
    """What a rule does.

    law      of its texts, (S,)
    cost     expected sum of total correlations, which is KL(p || law), in nats
    bound    the same of the bounds by entropies, in nats
    passes   their expected number

    Expectations are under p.
    """

    law: Vector
    cost: float
    bound: float
    passes: float


def decoded(model: LabModel, rule: Rule) -> Decoded:
    """Follow a rule through all texts."""
    cost = 0.0
    bound = 0.0
    passes = 0.0
    waiting: list[tuple[PartialText, float]] = [(all_hidden(model), 1.0)]
    chances: dict[PartialText, float] = {}
    while waiting:
        text, chance = waiting.pop()  # the probability with which the rule reveals it
        if None not in text:
            chances[text] = chance
            continue
        hidden = HiddenSites.of(model, text)
        places = rule(hidden)
        cost += hidden.chance * hidden.total_correlation(places)
        bound += hidden.chance * hidden.entropy_bound(places)
        passes += hidden.chance
        sites = [hidden.sites[place] for place in places]
        marginals = [hidden.marginal(place) for place in places]
        possible = [np.flatnonzero(marginal).tolist() for marginal in marginals]
        for values in product(*possible):
            drawn = [marginal[value] for marginal, value in zip(marginals, values, strict=True)]
            longer = revealed(text, zip(sites, values, strict=True))
            waiting.append((longer, chance * float(np.prod(drawn))))
    return Decoded(law=law_of_texts(model, chances), cost=cost, bound=bound, passes=passes)


def every(m: int) -> Rule:
    """Every m-th site, m a power of two. Offsets come in the order of their reversed bits, so
    that each group lies half way between those before it. For m = 1 all sites at once.
    """
    bits = max(1, (m - 1).bit_length())

    def turn(site: int) -> int:
        """When the group of a site is drawn: its offset with the bits reversed."""
        return int(f"{site % m:0{bits}b}"[::-1], 2)

    def rule(hidden: HiddenSites) -> Places:
        turns = [turn(site) for site in hidden.sites]
        first = min(turns)
        return tuple(place for place, its_turn in enumerate(turns) if its_turn == first)

    return rule


def lowest_entropy(count: int) -> Rule:
    """The `count` sites of lowest entropy."""

    def rule(hidden: HiddenSites) -> Places:
        places = sorted(range(len(hidden.sites)), key=hidden.entropy)
        return tuple(places[:count])

    return rule


def entropy_bound(gamma: float) -> Rule:
    """As many sites of lowest entropy as keep the sum of entropies minus the largest at most
    `gamma`, in nats; at least one.
    """

    def rule(hidden: HiddenSites) -> Places:
        places = sorted(range(len(hidden.sites)), key=hidden.entropy)
        entropies = np.array([hidden.entropy(place) for place in places])
        # They ascend, so that the last of each is the largest, and the bounds ascend, too.
        bounds = np.cumsum(entropies) - entropies
        kept = int((bounds <= gamma + ROUNDING).sum())
        return tuple(places[: max(1, kept)])

    return rule


def least_dependent(gamma: float) -> Rule:
    """The site with the largest sum of informations about others, then always the least dependent
    on those chosen, while the sum of dependences is at most `gamma`, in nats.

    The dependence of a site is the sum of its pairwise informations about those chosen, at most
    its entropy.
    """

    def rule(hidden: HiddenSites) -> Places:
        count = len(hidden.sites)
        information = np.zeros((count, count))
        for a, b in combinations(range(count), 2):
            information[a, b] = information[b, a] = hidden.total_correlation((a, b))
        # Rounded, here and below, so that equal values are ties, which go to the left.
        chosen = [int(information.sum(1).round(12).argmax())]
        spent = 0.0
        while len(chosen) < count:
            dependence: dict[int, float] = {}
            for place in range(count):
                if place not in chosen:
                    on_chosen = float(information[place, chosen].sum())
                    dependence[place] = min(hidden.entropy(place), on_chosen)
            best = min(dependence, key=lambda place: round(dependence[place], 12))
            spent += dependence[best]
            if spent > gamma + ROUNDING:
                break
            chosen.append(best)
        return tuple(sorted(chosen))

    return rule
