"""Transition matrices of masked samplers, exact.

    block        P(x, y) = sum_K p(K | x)  p(y_K | x_{-K}, K)                        right for any mask law
    naive        P(x, y) = sum_K p(K | x)  p(y_K | x_{-K})                           wrong when masks look at x
    parallel     P(x, y) = sum_K p(K | x)  prod_{i in K} p(y_i | x_{-K})             what one forward pass draws

each over y with y_{-K} = x_{-K}. The block dynamics of uniform masks of size k is k-Gibbs, P_k. A context of
probability zero, which only an impossible state can have, leaves the state as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy import sparse

from unmask.lab.mask_law import MaskLaw, uniform_masks
from unmask.lab.model import LabModel
from unmask.lab.space import Mask, Space, Vector

Transition: TypeAlias = Any
"""A numpy array or a scipy.sparse.csr_array. Row-stochastic; sparse where fewer than a quarter of its cells can be nonzero."""


def conditional(space: Space, weight: Vector, mask: Mask) -> Vector:
    """w(x) / sum_K w: the probability of x_K given x_{-K} under an unnormalised w, 0 in contexts without weight."""
    total = space.sum_over(mask, weight)
    return np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)


def product_conditional(space: Space, p: Vector, mask: Mask) -> Vector:
    """prod_{i in K} p(x_i | x_{-K}), 0 in contexts without weight."""
    total = space.sum_over(mask, p)
    out = np.where(total > 0, 1.0, 0.0)
    for i in mask:
        single = space.sum_over(tuple(j for j in mask if j != i), p)
        out = out * np.divide(single, total, out=np.zeros_like(p), where=total > 0)
    return out


def block_dynamics(model: LabModel, law: MaskLaw) -> Transition:
    """Draw K ~ p(K | x), then x_K from p(x_K | x_{-K}, K): reversible with respect to p."""
    joint = law.joint(model.p)
    return _assemble(law, lambda index, mask: conditional(model.space, joint[index], mask))


def naive_dynamics(model: LabModel, law: MaskLaw) -> Transition:
    """Draw K ~ p(K | x), then x_K from p(x_K | x_{-K}), as if the mask had not looked at x."""
    return _assemble(law, lambda _, mask: conditional(law.space, model.p, mask))


def parallel_step(model: LabModel, law: MaskLaw) -> Transition:
    """Draw K ~ p(K | x), then each x_i, i in K, on its own from p(x_i | x_{-K})."""
    return _assemble(law, lambda _, mask: product_conditional(model.space, model.p, mask))


def gibbs(model: LabModel, k: int) -> Transition:
    """P_k: the block dynamics of uniform masks of k sites."""
    return block_dynamics(model, uniform_masks(model.space, k))


def dense(transition: Transition) -> Float[np.ndarray, "S S"]:
    """The matrix as an array."""
    return transition if isinstance(transition, np.ndarray) else np.asarray(transition.toarray())


def _assemble(law: MaskLaw, target: Callable[[int, Mask], Vector]) -> Transition:
    space = law.space
    states = space.states
    siblings = [space.siblings(mask) for mask in law.masks]
    total = None if sum(s.size * s.shape[1] for s in siblings) < states * states / 4 else np.zeros((states, states))
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for index, (mask, groups) in enumerate(zip(law.masks, siblings, strict=True)):
        given, goes_to = law.at(index), target(index, mask)
        width = groups.shape[1]
        rows = np.repeat(groups, width, axis=1).ravel()
        columns = np.tile(groups, (1, width)).ravel()
        flow = given[rows] * goes_to[columns]
        stay = np.where(space.sum_over(mask, goes_to) > 0, 0.0, given)
        if total is None:
            own = np.arange(states)
            parts.append((np.concatenate([flow, stay]), np.concatenate([rows, own]), np.concatenate([columns, own])))
        else:
            total[rows, columns] += flow
            total[np.diag_indices(states)] += stay
    if total is not None:
        return total
    flows, rows, columns = (np.concatenate(piece) for piece in zip(*parts, strict=True))
    matrix = sparse.csr_array((flows, (rows, columns)), shape=(states, states))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
