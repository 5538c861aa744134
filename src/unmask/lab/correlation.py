"""Entropies of sets of sites, and what is lost when a block is drawn site by site.

    H(A) = -E log p(x_A)                                        nats
    TC(B | A) = sum_{i in B} H(x_i | x_A) - H(x_B | x_A)        conditional total correlation, at least 0

TC(B | A) = E KL( p(x_B | x_A) || prod_i p(x_i | x_A) ): it is zero exactly when one parallel draw of B is a Gibbs step.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from unmask.lab.mask_law import MaskLaw
from unmask.lab.model import LabModel


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
            self._known[key] = float(entr(self.cells.sum(axis=tuple(i for i in range(self.sites) if i not in key))).sum())
        return self._known[key]

    def given(self, sites: Iterable[int], context: Iterable[int]) -> float:
        """H(x_A | x_C)."""
        context = frozenset(context)
        return self(context.union(sites)) - self(context)

    def total_correlation(self, block: Iterable[int], context: Iterable[int] = ()) -> float:
        """TC(B | A)."""
        block, context = frozenset(block), frozenset(context)
        return sum(self.given((i,), context) for i in block) - self.given(block, context)

    def mutual_information(self, a: int, b: int, context: Iterable[int] = ()) -> float:
        """I(x_a; x_b | x_C)."""
        return self.total_correlation((a, b), context)


def masked_total_correlation(model: LabModel, law: MaskLaw) -> float:
    """E_K TC(x_K | x_{-K}): what a factorised head loses per step, for masks that do not look at x."""
    entropies = Entropies(model)
    everything = frozenset(range(model.space.sites))
    losses = [entropies.total_correlation(mask, everything.difference(mask)) for mask in law.masks]
    return float(np.dot(law.given[:, 0], losses))


def masked_cross_entropy(model: LabModel, k: int) -> float:
    """E_{|K|=k} sum_{i in K} H(x_i | x_{-K}): the least that the factorised loss can be."""
    entropies = Entropies(model)
    everything = frozenset(range(model.space.sites))
    masks = model.space.masks(k)
    return float(np.mean([sum(entropies.given((i,), everything.difference(mask)) for i in mask) for mask in masks]))


def dependence_matrix(model: LabModel) -> Float[np.ndarray, "N N"]:
    """I(x_i; x_j | all others) for every pair of sites, (N, N) with a zero diagonal."""
    entropies = Entropies(model)
    n = model.space.sites
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = out[j, i] = entropies.mutual_information(i, j, (s for s in range(n) if s not in (i, j)))
    return out
