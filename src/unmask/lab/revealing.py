"""Decoders whose sets are chosen from the revealed tokens, with the exact conditionals of one p: their law and its divergence.

A rule chooses K from (S, x_S); its tokens are drawn independently, S grows by K until nothing is hidden:

    law(x) = prod_t prod_{i in K_t} p(x_i | x_{S_t}),        KL(p || law) = sum_t E TC(X_{K_t} | x_{S_t})

the expectation under p. TC(K) <= sum of the entropies of K - the largest: the bound that `entropy_bound` keeps under gamma, loose
by all that is independent. Pairwise informations do not bound TC: three fair bits of even parity are pairwise independent and
have TC = ln 2; three bits that agree have conditional informations 0 given the third, and TC = 2 ln 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from unmask.lab.model import LabModel, Vector, table_model

Sites = tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """A partly revealed text: its hidden sites, and their joint given what is revealed."""

    hidden: Sites
    joint: Float[np.ndarray, ...]

    def entropy(self, *places: int) -> float:
        """H of some of the hidden sites, by their places in `hidden`."""
        return float(entr(self.joint.sum(axis=tuple(i for i in range(len(self.hidden)) if i not in places))).sum())

    def total_correlation(self, places: Sites) -> float:
        """TC given what is revealed."""
        return sum(self.entropy(i) for i in places) - self.entropy(*places)

    def entropy_bound(self, places: Sites) -> float:
        """The sum of the entropies minus the largest."""
        each = [self.entropy(i) for i in places]
        return sum(each) - max(each)


Rule = Callable[[Seen], Sites]
"""Places in `hidden` of the sites to draw next; at least one."""


@dataclass(frozen=True)
class Decoded:
    """The law of a rule; under p: the expected sum of total correlations, that of its bound by entropies, and the passes."""

    law: Vector
    cost: float
    bound: float
    passes: float


def decoded(model: LabModel, rule: Rule) -> Decoded:
    """Follow a rule through all texts. Revealed tokens that are impossible under p say nothing: the rest is then uniform."""
    sizes = model.space.sizes
    cells, law = model.p.reshape(sizes), np.zeros(sizes)
    cost = bound = passes = 0.0
    waiting: list[tuple[tuple[int | None, ...], float]] = [((None,) * len(sizes), 1.0)]
    while waiting:
        text, drawn = waiting.pop()
        hidden = tuple(i for i, value in enumerate(text) if value is None)
        if not hidden:
            law[tuple(v for v in text if v is not None)] = drawn
            continue
        rest = cells[tuple(slice(None) if v is None else v for v in text)]
        chance = float(rest.sum())
        seen = Seen(hidden, rest / chance if chance > 0 else np.full(rest.shape, 1 / rest.size))
        places = rule(seen)
        cost += chance * seen.total_correlation(places)
        bound += chance * seen.entropy_bound(places)
        passes += chance
        marginals = [seen.joint.sum(axis=tuple(j for j in range(len(hidden)) if j != i)) for i in places]
        for values in product(*(np.flatnonzero(marginal).tolist() for marginal in marginals)):
            filled = list(text)
            for place, value in zip(places, values, strict=True):
                filled[hidden[place]] = value
            share = drawn * float(np.prod([m[v] for m, v in zip(marginals, values, strict=True)]))
            waiting.append((tuple(filled), share))
    return Decoded(law.ravel(), cost, bound, passes)


def one_pass(seen: Seen) -> Sites:
    """All sites at once: the product."""
    return tuple(range(len(seen.hidden)))


def every(m: int) -> Rule:
    """Every m-th site, offsets in the order of their reversed bits (for m a power of two)."""
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
    """As many sites of lowest entropy as keep the sum of entropies minus the largest at most `gamma`."""

    def rule(seen: Seen) -> Sites:
        order = sorted(range(len(seen.hidden)), key=seen.entropy)
        each = np.array([seen.entropy(i) for i in order])
        return tuple(order[: max(1, int((np.cumsum(each) - each <= gamma + 1e-12).sum()))])

    return rule


def least_dependent(gamma: float) -> Rule:
    """Least dependent next, by the pairwise informations: while their sum, at most the entropy of each site, is under gamma."""

    def rule(seen: Seen) -> Sites:
        n = len(seen.hidden)
        pairs = np.zeros((n, n))
        for a, b in combinations(range(n), 2):
            pairs[a, b] = pairs[b, a] = seen.total_correlation((a, b))
        chosen, spent = [int(pairs.sum(1).round(12).argmax())], 0.0
        while len(chosen) < n:
            terms = {i: min(seen.entropy(i), float(pairs[i, chosen].sum())) for i in range(n) if i not in chosen}
            best = min(terms, key=lambda i: round(terms[i], 12))
            spent += terms[best]
            if spent > gamma + 1e-12:
                break
            chosen.append(best)
        return tuple(sorted(chosen))

    return rule


def even_parity() -> LabModel:
    """Three fair bits whose sum is even."""
    return table_model([[[(1 - (a + b + c) % 2) / 4 for c in (0, 1)] for b in (0, 1)] for a in (0, 1)], "even parity")


def agreement() -> LabModel:
    """Three fair bits that are equal."""
    return table_model([[[float(a == b == c) / 2 for c in (0, 1)] for b in (0, 1)] for a in (0, 1)], "agreement")
