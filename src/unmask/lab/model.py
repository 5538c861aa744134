"""A probability model on an enumerated space, as an exponential family around a base measure.

    p_theta(x)  proportional to  exp( base(x) + theta . F(x) ),        score  s(x) = F(x) - E_theta F

`base` carries whatever is known, `theta` what an estimator has to find. A base of -inf forbids a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from unmask.errors import InputError
from unmask.lab.space import Space, Vector

Theta = Float[np.ndarray, " d"]
"""A number per parameter."""
MAX_SPAN = 600.0
"""Largest difference of log-weights between states: exp(-600) and its square root are still normal float64 numbers."""


@dataclass(frozen=True)
class LabModel:
    """A distribution `p` over `space`, and the family it is seen as a member of."""

    name: str
    space: Space
    base: Float[np.ndarray, " n"]
    features: Float[np.ndarray, "states d"]
    theta: Float[np.ndarray, " parameters"]
    parameters: tuple[str, ...]

    def __post_init__(self) -> None:
        states, d = self.space.states, len(self.theta)
        if self.base.shape != (states,) or self.features.shape != (states, d) or len(self.parameters) != d:
            raise InputError(
                f"{self.name}: base {self.base.shape}, features {self.features.shape}, {d} parameters and "
                f"{len(self.parameters)} names do not fit {states} states: use (S,), (S, d), d and d"
            )

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
        allowed = log_weight[~np.isneginf(log_weight)]
        span = float(np.ptp(allowed)) if len(allowed) else np.nan
        if not span <= MAX_SPAN:
            largest = float(np.abs(theta).max(initial=0.0))
            remedy = "raise the smallest probabilities, or set them to 0"
            if largest > 0:
                fits = largest * MAX_SPAN / span if span > 0 else 0.0
                remedy = f"use couplings and fields smaller than {fits:.3g} (largest now: {largest:.3g})"
            raise InputError(
                f"{self.name}: log-weights of the states differ by {span:,.0f}, and float64 probabilities hold "
                f"{MAX_SPAN:.0f}: {remedy}"
            )
        return log_weight - logsumexp(log_weight)

    def along(self, f: Vector, name: str = "theta") -> LabModel:
        """The one-parameter family p exp(theta f) / Z through this model at theta = 0."""
        return replace(
            self,
            name=f"{self.name} along {name}",
            base=self.log_p,
            features=f.reshape(-1, 1),
            theta=np.zeros(1),
            parameters=(name,),
        )


def table_model(joint: ArrayLike, name: str = "table") -> LabModel:
    """A model given by its probabilities p[x_1, ..., x_N], with one free log-weight per possible state but the last."""
    cells = np.asarray(joint, dtype=np.float64)
    needs = f"{name}: a table of probabilities needs numbers of at least 0 that sum to 1"
    if unfit := cells[~(np.isfinite(cells) & (cells >= 0))].ravel().tolist():
        raise InputError(f"{needs}, and one of its numbers is {unfit[0]:.6g}: correct it")
    if cells.ndim < 1 or not np.isclose(cells.sum(), 1, atol=1e-6):
        raise InputError(f"{needs}, not to {cells.sum():.6g}")
    if np.count_nonzero(cells) < 2:
        raise InputError(f"{needs}, and one state has all of it: give two states a probability above 0")
    space = Space(cells.shape)
    p = cells.ravel() / cells.sum()
    free = np.flatnonzero(p)[:-1]
    features = np.zeros((space.states, len(free)))
    features[free, np.arange(len(free))] = 1.0
    labels = tuple("log p" + str(tuple(int(v) for v in space.values[x])) for x in free)
    with np.errstate(divide="ignore"):
        return LabModel(name, space, np.log(p), features, np.zeros(len(free)), labels)


def random_table(sizes: Sequence[int], seed: int, scale: float = 1.0) -> LabModel:
    """A strictly positive table with independent normal log-weights of standard deviation `scale`."""
    space = Space(tuple(sizes))
    log_weight = scale * np.random.default_rng(seed).normal(size=space.states)
    weight = np.exp(log_weight - logsumexp(log_weight))
    return table_model(weight.reshape(space.sizes), f"random table, seed {seed}")
