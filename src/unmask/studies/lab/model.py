"""Probability models on finite product spaces, enumerated.

The space is Omega = {0..q_1-1} x ... x {0..q_N-1} in C order. A function on it is a vector of S
= prod q_i numbers. A mask K is a set of sites; a *context* is a value of x_{-K}, and a masked
model chooses between the states that share a context. Sums over the masked sites

    (sum_K f)(x) = sum_{z : z_{-K} = x_{-K}} f(z)

are sums over axes of an N-dimensional array, broadcast back to all S states.

A model is a member of an exponential family around a base measure:

    p_theta(x)  proportional to  exp( base(x) + theta . F(x) ),        score
            s(x) = F(x) - E_theta F

`base` is the known part, `theta` the part that an estimator has to find. A base of -inf forbids
a state. In the Ising model sites that a graph joins like to agree:

    p(x) proportional to exp( beta sum_{i~j} x_i x_j + sum_i h_i x_i ),      x_i in {-1, +1}

Curie-Weiss is Ising on the complete graph; `beta` is the coupling of one pair. As a family,
every edge has its own coupling and every site its own field, so that N = 6 spins on the
complete graph have 15 + 6 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from unmask.common.errors import InputError

Vector = Float[np.ndarray, " S"]
"""A number per state."""
Theta = Float[np.ndarray, " d"]
"""A number per parameter."""
Fields = Float[np.ndarray, " N"]
"""A number per site."""
Counts = Float[np.ndarray, " counts"]
"""A probability per number of sites, 0 to N."""
Mask = tuple[int, ...]
"""The masked sites, in ascending order."""

MAX_STATES = 1024
"""States of the largest space: a transition matrix then has a million numbers."""
MAX_SPAN = 600.0
"""Largest difference of log-weights between states: exp(-600) and its square root are still
normal float64 numbers.
"""


@dataclass(frozen=True)
class Space:
    """N sites with `sizes[i]` values each."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.states > MAX_STATES:
            raise InputError(
                f"{self.sites} sites make {self.states:,} states, and the lab enumerates"
                f" {MAX_STATES:,}: use fewer"
            )

    @property
    def sites(self) -> int:
        """N."""
        return len(self.sizes)

    @property
    def states(self) -> int:
        """S = the number of states."""
        return prod(self.sizes)

    @cached_property
    def values(self) -> Int[np.ndarray, "S N"]:
        """The states, (S, N)."""
        return np.indices(self.sizes).reshape(self.sites, -1).T

    def masks(self, k: int) -> tuple[Mask, ...]:
        """All masks of k sites."""
        if not 1 <= k <= self.sites:
            raise InputError(f"k = {k} masked sites of {self.sites}: use k from 1 to {self.sites}")
        return tuple(combinations(range(self.sites), k))

    def sum_over(self, mask: Mask, f: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
        """sum_K f for f of shape (S,) or (S, d), in the shape of f."""
        cells = f.reshape(*self.sizes, *f.shape[1:])
        total = cells.sum(axis=mask, keepdims=True)
        return np.broadcast_to(total, cells.shape).reshape(f.shape)

    def siblings(self, mask: Mask) -> Int[np.ndarray, "contexts states"]:
        """The states grouped by context: (contexts, states of a context), as indices."""
        width = prod(self.sizes[i] for i in mask)
        index = np.arange(self.states).reshape(self.sizes)
        last_axes = range(self.sites - len(mask), self.sites)
        return np.moveaxis(index, mask, last_axes).reshape(-1, width)


@dataclass(frozen=True)
class LabModel:
    """A distribution `p` over `space`, and the family it is seen as a member of.

    base, features   of the family (see the head of this file), (S,) and (S, d)
    theta            the parameters of this member, (d,)
    """

    name: str
    space: Space
    base: Float[np.ndarray, " n"]
    features: Float[np.ndarray, "states d"]
    theta: Float[np.ndarray, " parameters"]

    @cached_property
    def log_p(self) -> Vector:
        """log p_theta(x), (S,)."""
        return self.log_p_at(self.theta)

    @cached_property
    def p(self) -> Vector:
        """p_theta(x), (S,)."""
        return np.exp(self.log_p)

    @cached_property
    def score(self) -> Float[np.ndarray, "S d"]:
        """s(x) = F(x) - E F, (S, d)."""
        return self.features - self.p @ self.features

    def log_p_at(self, theta: Theta) -> Vector:
        """log p at other parameters."""
        log_weight = self.base + self.features @ theta
        refuse_wide_span(self.name, log_weight)
        return log_weight - logsumexp(log_weight)

    def along(self, f: Vector) -> LabModel:
        """The one-parameter family p exp(theta f) / Z through this model at theta = 0."""
        return replace(self, base=self.log_p, features=f.reshape(-1, 1), theta=np.zeros(1))


def refuse_wide_span(name: str, log_weight: Vector) -> None:
    """Raise if float64 probabilities cannot hold the log-weights of all possible states."""
    possible = log_weight[~np.isneginf(log_weight)]
    span = float(np.ptp(possible))
    if not span <= MAX_SPAN:  # also if it is NaN
        raise InputError(
            f"{name}: log-weights of the states differ by {span:,.0f}, and float64 probabilities"
            f" hold {MAX_SPAN:.0f}: use smaller couplings and fields, or raise the smallest"
            " probabilities"
        )


def table_model(joint: ArrayLike, name: str = "table") -> LabModel:
    """A model given by its probabilities p[x_1, ..., x_N], with one free log-weight per
    possible state but the last.
    """
    cells = np.asarray(joint, dtype=np.float64)
    total = cells.sum()
    possible = np.count_nonzero(cells)
    is_law = (cells >= 0).all() and np.isclose(total, 1, atol=1e-6)
    if not is_law or possible < 2:
        least = cells.min(initial=np.inf)
        raise InputError(
            f"{name}: the least is {least:.6g}, the sum {total:.6g}, and {possible} are not 0:"
            " give probabilities of two or more states, at least 0, that sum to 1"
        )
    space = Space(cells.shape)
    p = cells.ravel() / total
    free = np.flatnonzero(p)[:-1]
    features = np.zeros((space.states, len(free)))
    features[free, np.arange(len(free))] = 1.0
    with np.errstate(divide="ignore"):  # log 0 = -inf: a state that is impossible
        base = np.log(p)
    return LabModel(name=name, space=space, base=base, features=features, theta=np.zeros(len(free)))


def edges(graph: str, sites: int) -> list[tuple[int, int]]:
    """The pairs of sites that `graph` joins."""
    if graph == "complete":
        return list(combinations(range(sites), 2))
    path = [(i, i + 1) for i in range(sites - 1)]
    if graph == "cycle" and sites > 2:  # the path already joins both of two sites
        return [*path, (0, sites - 1)]
    return path


def ising(coupling: float | Sequence[float], fields: Fields, graph: str = "complete") -> LabModel:
    """The Ising model on `graph`, with one coupling for all edges or one per edge; parameters:
    couplings, then fields.
    """
    sites = len(fields)
    name = f"Ising, {graph} graph, N={sites}"
    space = Space((2,) * sites)
    pairs = edges(graph, sites)
    couplings = np.broadcast_to(np.asarray(coupling, dtype=np.float64), (len(pairs),))
    theta = np.concatenate([couplings, fields])
    spins = 2.0 * space.values.T - 1.0  # (N, S)
    products = [spins[i] * spins[j] for i, j in pairs]
    features = np.stack([*products, *spins], axis=1)
    refuse_wide_span(name, features @ theta)  # now, and not at the first look at p
    return LabModel(
        name=name, space=space, base=np.zeros(space.states), features=features, theta=theta
    )


def agreement_law(model: LabModel, law: Vector | None = None) -> Counts:
    """The law of how many sites take the last value, (N + 1,): one hump for independent sites,
    two if they agree.

    law   of the states [default: p]
    """
    if law is None:
        law = model.p
    last_values = np.array(model.space.sizes) - 1
    count = (model.space.values == last_values).sum(1)
    by_count = np.bincount(count, weights=law, minlength=model.space.sites + 1)
    return by_count.astype(np.float64)
