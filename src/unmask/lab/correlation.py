"""Dependence between masked sites: entropies, total correlation, and approximate tensorisation of entropy.

    H(A) = -E log p(x_A)                                        nats
    TC(B | A) = sum_{i in B} H(x_i | x_A) - H(x_B | x_A)        conditional total correlation, at least 0

TC(B | A) = E KL( p(x_B | x_A) || prod_i p(x_i | x_A) ): it is zero exactly when one parallel draw of B is a Gibbs step.

Tensorisation bounds how much of a model's error the conditionals can hide. For masks K ~ p_K that do not look at x, C is the
least constant with

    KL(q || p)  <=  C  E_K E_{x_{-K} ~ q} KL( q(x_K | x_{-K}) || p(x_K | x_{-K}) )        for every q.

The right side is the excess masked loss of the model p on data q, the left side is its whole error. By the chain
rule the expectation is KL(q || p) - E_K KL(q_{-K} || p_{-K}). Near p the two sides are a variance and a Dirichlet form, so
C >= 1 / gap; for independent sites and masks of size k, C = N / k. L-BFGS searches for the supremum from several starts: the
result is attained, hence a lower bound on C.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, log_softmax

from unmask.errors import InputError
from unmask.lab.dynamics import MaskLaw, block_dynamics, slowest
from unmask.lab.model import LabModel, Vector

_TOO_CLOSE = 1e-7
"""Below this divergence the ratio is rounding error; its limit there is 1 / gap, which is taken from the spectrum."""


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


def divergences(model: LabModel, law: MaskLaw, log_q: Vector) -> tuple[float, float, Vector, Vector]:
    """KL(q || p), E_K KL(q_K|-K || p_K|-K), and a, b with gradients q (a - E a), q (b - E b) in the log-weights of q."""
    space, q = model.space, np.exp(log_q)
    ratio = log_q - model.log_p
    whole = float(q @ ratio)
    context_ratio = np.zeros_like(ratio)
    for weight, mask in zip(law.given[:, 0], law.masks, strict=True):
        context_q, context_p = space.sum_over(mask, q), space.sum_over(mask, model.p)
        context_ratio += weight * (np.log(np.maximum(context_q, np.finfo(float).tiny)) - np.log(context_p))
    inside = ratio - context_ratio
    return whole, float(q @ inside), ratio, inside


def tensorisation_constant(model: LabModel, law: MaskLaw, starts: int = 6, seed: int = 0) -> float:
    """The largest ratio found, at least 1 / gap."""
    if law.adaptive or model.p.min() <= 0:
        raise InputError("approximate tensorisation is computed for masks that do not look at x and models without zeros")
    gap, f = slowest(block_dynamics(model, law), model.p)
    generator = np.random.default_rng(seed)

    def negative_log_ratio(logits: Vector) -> tuple[float, Vector]:
        log_q = log_softmax(logits)
        whole, masked, a, b = divergences(model, law, log_q)
        if whole < _TOO_CLOSE or masked <= 0:
            return float(np.log(gap)), np.zeros_like(logits)
        q = np.exp(log_q)
        return float(np.log(masked) - np.log(whole)), q * (b - masked) / masked - q * (a - whole) / whole

    first = [model.log_p + size * f for size in (1.0, -1.0, 3.0)]
    first += [model.log_p + generator.normal(size=model.space.states) for _ in range(starts)]
    best = max(-float(minimize(negative_log_ratio, x, jac=True, method="L-BFGS-B", options={"maxiter": 400}).fun) for x in first)
    return max(float(np.exp(best)), 1 / gap)
