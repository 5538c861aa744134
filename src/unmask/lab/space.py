"""Finite product spaces Omega = {0..q_1-1} x ... x {0..q_N-1}, enumerated in C order.

A function on the space is a vector of S = prod q_i numbers. A mask K is a set of sites; a *context* is a value of
x_{-K}, and the states that share a context are the ones a masked model has to choose between. Sums over the masked sites

    (sum_K f)(x) = sum_{z : z_{-K} = x_{-K}} f(z)

are sums over axes of an N-dimensional array, broadcast back to all S states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf, log2, prod

import numpy as np
from jaxtyping import Float, Int

from unmask.errors import InputError

Vector = Float[np.ndarray, " S"]
"""A number per state."""
Mask = tuple[int, ...]

MAX_STATES = 4096


@dataclass(frozen=True)
class Space:
    """N sites with `sizes[i]` values each."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise InputError(f"a space of sizes {list(self.sizes)}: give at least one site, each with at least one value")
        if self.states > MAX_STATES:
            raise _too_many(self.sites, _values(self.sizes), self.states, max(self.sizes))

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

    def check(self, mask: Sequence[int]) -> Mask:
        """`mask` as a sorted tuple, if its sites exist and differ."""
        sites = tuple(sorted(mask))
        if not sites or len(set(sites)) != len(sites) or sites[0] < 0 or sites[-1] >= self.sites:
            raise InputError(f"mask {list(mask)}: name one or more different sites from 0 to {self.sites - 1}")
        return sites

    def sum_over(self, mask: Mask, f: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
        """sum_K f for f of shape (S,) or (S, d), in the shape of f."""
        cells = f.reshape(*self.sizes, *f.shape[1:])
        total = cells.sum(axis=mask, keepdims=True) if mask else cells
        return np.broadcast_to(total, cells.shape).reshape(f.shape)

    def siblings(self, mask: Mask) -> Int[np.ndarray, "contexts states"]:
        """The states grouped by context: (contexts, states of a context), as indices."""
        width = prod(self.sizes[i] for i in mask)
        index = np.arange(self.states).reshape(self.sizes)
        return np.moveaxis(index, mask, range(self.sites - len(mask), self.sites)).reshape(-1, width)


def refuse_too_many(sites: int, size: int) -> None:
    """Say what would fit, before anything of that size is made."""
    if sites * log2(size) > log2(MAX_STATES):
        states = size**sites if sites * log2(size) < 128 else inf
        raise _too_many(sites, f"{size} values", states, size)


def _too_many(sites: int, values: str, states: int | float, size: int) -> InputError:
    return InputError(
        f"{sites:,} sites of {values} make {f'{states:,}' if states < inf else 'far too many'} states and the lab enumerates at "
        f"most {MAX_STATES:,}: {_what_fits(size)}"
    )


def _values(sizes: tuple[int, ...]) -> str:
    return f"{sizes[0]} values" if len(set(sizes)) == 1 else "up to " + f"{max(sizes)} values"


def _what_fits(size: int) -> str:
    if size > MAX_STATES:
        return f"use at most {MAX_STATES:,} values"
    sites = 0
    while size > 1 and size ** (sites + 1) <= MAX_STATES:
        sites += 1
    return f"{sites} sites of {size} values would fit ({size**sites:,} states)"
