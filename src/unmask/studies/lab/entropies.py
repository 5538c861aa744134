"""Dependence between sites, in nats: entropies, total correlations and divergences.

    H(A) = -E log p(x_A)
    TC(B | A) = sum_{i in B} H(x_i | x_A) - H(x_B | x_A)
            conditional total correlation, at least 0

TC(B | A) = E KL( p(x_B | x_A) || prod_i p(x_i | x_A) ): it is zero exactly when one parallel
draw of B is a Gibbs step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, rel_entr

from unmask.studies.lab.dynamics import MaskLaw
from unmask.studies.lab.model import LabModel, Vector


class Entropies:
    """H of any set of sites of a model. Each set is summed once."""

    def __init__(self, model: LabModel) -> None:
        self.model = model
        self.cells: NDArray[np.float64] = model.p.reshape(model.space.sizes)
        self._entropy_of: dict[frozenset[int], float] = {frozenset(): 0.0}

    def __call__(self, sites: Iterable[int]) -> float:
        """H(x_A)."""
        chosen = frozenset(sites)
        if chosen not in self._entropy_of:
            others = [site for site in range(self.model.space.sites) if site not in chosen]
            marginal = self.cells.sum(axis=tuple(others))
            self._entropy_of[chosen] = float(entr(marginal).sum())
        return self._entropy_of[chosen]

    def conditional(self, sites: Iterable[int], context: Iterable[int]) -> float:
        """H(x_A | x_C)."""
        revealed = frozenset(context)
        return self(revealed.union(sites)) - self(revealed)

    def total_correlation(self, block: Iterable[int], context: Iterable[int] = ()) -> float:
        """TC(B | A). Of two sites it is their mutual information."""
        together = frozenset(block)
        revealed = frozenset(context)
        alone = sum(self.conditional((site,), revealed) for site in together)
        return alone - self.conditional(together, revealed)


def pair_information(model: LabModel) -> float:
    """Mean mutual information of two sites."""
    entropies = Entropies(model)
    pairs = combinations(range(model.space.sites), 2)
    return float(np.mean([entropies.total_correlation(pair) for pair in pairs]))


def masked_total_correlation(model: LabModel, law: MaskLaw) -> float:
    """E_K TC(x_K | x_{-K}): what a factorised head loses per step. The masks must not look at
    the text.
    """
    entropies = Entropies(model)
    every_site = frozenset(range(model.space.sites))
    losses = [entropies.total_correlation(mask, every_site.difference(mask)) for mask in law.masks]
    return float(np.dot(law.probability[:, 0], losses))


def masked_cross_entropy(model: LabModel, k: int) -> float:
    """E_{|K|=k} sum_{i in K} H(x_i | x_{-K}): the least that the factorised loss can be."""
    entropies = Entropies(model)
    every_site = frozenset(range(model.space.sites))
    losses = []
    for mask in model.space.masks(k):
        visible = every_site.difference(mask)
        losses.append(sum(entropies.conditional((site,), visible) for site in mask))
    return float(np.mean(losses))


def kl(p: Vector, q: Vector) -> float:
    """KL(p || q)."""
    return float(rel_entr(p, q).sum())
