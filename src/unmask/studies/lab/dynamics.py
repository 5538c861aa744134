"""Masked samplers, exact: how masks are drawn, transition matrices, and their long-run behaviour.

Masks have a law p(K | x). Uniform masks of size k and weighted masks do not look at x. Adaptive
masks do; then the choice of the mask is evidence about the masked tokens, and the right
conditional is

    p(x_K | x_{-K}, K)  proportional to  p(x) p(K | x),

not p(x_K | x_{-K}). Every law is a table `probability[K, x] = p(K | x)`, with a single column
if x does not matter. The samplers are

    block        P(x, y) = sum_K p(K | x)  p(y_K | x_{-K}, K)
                 right for any mask law
    naive        P(x, y) = sum_K p(K | x)  p(y_K | x_{-K})
                 wrong when masks look at x
    parallel     P(x, y) = sum_K p(K | x)  prod_{i in K} p(y_i | x_{-K})
                 what one forward pass draws

each over y with y_{-K} = x_{-K}. The block dynamics of uniform masks of size k is k-Gibbs, P_k.
A context of probability zero, which only an impossible state can have, leaves the state as it
is.

For a chain P reversible with respect to pi,

    E(f, f) = <f, (I - P) f>_pi = 1/2 sum_{x,y} pi(x) P(x,y) (f(x) - f(y))^2        Dirichlet form
    gap     = min E(f, f) / Var(f) = 1 - lambda_2,         Poincare constant = 1 / gap
    t_mix   = min { t : max_x TV(P^t(x, .), pi) <= 1/4 }
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from unmask.common.errors import InputError
from unmask.studies.lab.model import LabModel, Mask, Space, Vector

Square = Float[np.ndarray, "S S"]
"""A transition matrix, row-stochastic."""
WITHIN = 0.25
LONGEST = 1 << 40
"""Mixing times above this many steps are reported as infinite: rounding errors of the powers
would decide them.
"""


@dataclass(frozen=True)
class MaskLaw:
    """Masks and their probabilities given the state: `probability` is (masks, S), or (masks, 1)
    where x does not matter.
    """

    name: str
    space: Space
    masks: tuple[Mask, ...]
    probability: Float[np.ndarray, "K states"]

    def __post_init__(self) -> None:
        total = self.probability.sum(0)
        if self.probability.min() < 0 or not np.allclose(total, 1, atol=1e-9):
            raise InputError(
                f"{self.name}: probabilities of masks must be at least 0 and sum to 1, not to"
                f" {total.min():.6g}"
            )

    @property
    def adaptive(self) -> bool:
        """Whether the masks look at the state."""
        return self.probability.shape[1] > 1

    def at(self, mask: int) -> Vector:
        """p(K | x) of one mask for all states, (S,)."""
        return np.broadcast_to(self.probability[mask], (self.space.states,))

    def joint(self, p: Vector) -> Float[np.ndarray, "K S"]:
        """p(x) p(K | x), (masks, S)."""
        return self.probability * p


def uniform_masks(space: Space, k: int) -> MaskLaw:
    """All masks of k sites, equally likely: k-Gibbs, k-MPLE."""
    masks = space.masks(k)
    return MaskLaw(f"k={k}", space, masks, np.full((len(masks), 1), 1 / len(masks)))


def surprise_masks(model: LabModel, k: int, sharpness: float = 1.0) -> MaskLaw:
    """Masks that prefer tokens the model finds improbable: log p(K | x) = -sharpness sum_{i in
    K} log p(x_i | x_{-i}) + c(x).

    Mask-predict does this when it masks its least probable tokens again; `sharpness` 0 is uniform.
    """
    space = model.space
    if model.p.min() <= 0:
        raise InputError(
            f"{model.name}: surprise needs every state possible; smooth the table first"
        )
    masks, surprise = (
        space.masks(k),
        [np.log(space.sum_over((i,), model.p)) - model.log_p for i in range(space.sites)],
    )
    log_weight = np.stack(
        [sharpness * np.sum([surprise[i] for i in mask], axis=0) for mask in masks]
    )
    return MaskLaw(f"k={k} adaptive", space, masks, softmax(log_weight, axis=0))


def conditional(space: Space, weight: Vector, mask: Mask) -> Vector:
    """w(x) / sum_K w: the probability of x_K given x_{-K} under an unnormalised w, 0 in
    contexts without weight.
    """
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


def block_dynamics(model: LabModel, law: MaskLaw) -> Square:
    """Draw K ~ p(K | x), then x_K from p(x_K | x_{-K}, K): reversible with respect to p."""
    joint = law.joint(model.p)
    return _assemble(law, lambda index, mask: conditional(model.space, joint[index], mask))


def naive_dynamics(model: LabModel, law: MaskLaw) -> Square:
    """Draw K ~ p(K | x), then x_K from p(x_K | x_{-K}), as if the mask had not looked at x."""
    return _assemble(law, lambda _, mask: conditional(law.space, model.p, mask))


def parallel_step(model: LabModel, law: MaskLaw) -> Square:
    """Draw K ~ p(K | x), then each x_i, i in K, on its own from p(x_i | x_{-K})."""
    return _assemble(law, lambda _, mask: product_conditional(model.space, model.p, mask))


def gibbs(model: LabModel, k: int) -> Square:
    """P_k: the block dynamics of uniform masks of k sites."""
    return block_dynamics(model, uniform_masks(model.space, k))


def _assemble(law: MaskLaw, target: Callable[[int, Mask], Vector]) -> Square:
    space = law.space
    states = space.states
    total = np.zeros((states, states))
    for index, mask in enumerate(law.masks):
        chance, goes_to, groups = law.at(index), target(index, mask), space.siblings(mask)
        width = groups.shape[1]
        rows = np.repeat(groups, width, axis=1).ravel()
        columns = np.tile(groups, (1, width)).ravel()
        total[rows, columns] += chance[rows] * goes_to[columns]
        total[np.diag_indices(states)] += np.where(space.sum_over(mask, goes_to) > 0, 0.0, chance)
    return total


def total_variation(p: Vector, q: Vector) -> float:
    """TV(p, q) = 1/2 sum |p - q|."""
    return 0.5 * float(np.abs(p - q).sum())


def stationary_law(transition: Square) -> Vector:
    """The law pi with pi P = pi, zero on states that the chain leaves for good.

    By elimination without subtractions (Grassmann, Taksar and Heyman).
    """
    closed = _closed_class(transition)
    law = np.zeros(len(transition))
    law[closed] = _eliminated(transition[np.ix_(closed, closed)])
    return law


def _closed_class(matrix: Square) -> Int[np.ndarray, " closed"]:
    """The states of the one class that the chain cannot leave."""
    classes, member = connected_components(
        csr_array(matrix > 0), directed=True, connection="strong"
    )
    rows, columns = np.nonzero(matrix > 0)
    leaves = np.zeros(classes, dtype=bool)
    leaves[member[rows[member[rows] != member[columns]]]] = True
    closed = np.flatnonzero(~leaves)
    if len(closed) != 1:
        raise InputError(
            f"the chain has {len(closed)} classes of states that it cannot leave: it has no single"
            " stationary law"
        )
    return np.flatnonzero(member == closed[0])


def _eliminated(work: Square) -> Vector:
    states = len(work)
    for n in range(states - 1, 0, -1):
        work[:n, n] /= work[n, :n].sum()
        work[:n, :n] += np.outer(work[:n, n], work[n, :n])
    law = np.ones(states)
    for n in range(1, states):
        law[n] = law[:n] @ work[:n, n]
    return np.asarray(law / law.sum())


def dirichlet_form(transition: Square, law: Vector, f: Vector) -> float:
    """E(f, f) = 1/2 sum pi(x) P(x, y) (f(x) - f(y))^2: a sum of squares, so that it loses
    nothing to cancellation.
    """
    return 0.5 * float((law[:, None] * transition * (f[:, None] - f) ** 2).sum())


def slowest(transition: Square, law: Vector) -> tuple[float, Vector]:
    """The gap 1 - lambda_2 of a reversible chain, and its eigenfunction with E f = 0 and Var f
    = 1.
    """
    live = np.flatnonzero(law > 0)
    root, last = np.sqrt(law[live]), len(live) - 1
    symmetric = root[:, None] * transition[np.ix_(live, live)] / root
    _, vectors = eigh(
        (symmetric + symmetric.T) / 2 - 2 * np.outer(root, root), subset_by_index=[last, last]
    )
    f = np.zeros(len(law))
    f[live] = vectors[:, 0] / root
    f[live] -= law[live] @ f[live]
    gap = dirichlet_form(transition, law, f) / float(law @ f**2)
    f *= np.sign(f[np.abs(f).argmax()]) / math.sqrt(float(law @ f**2))
    return gap, f


def spectral_gap(transition: Square, law: Vector) -> float:
    """1 - lambda_2 of a chain reversible with respect to `law`."""
    return slowest(transition, law)[0]


def distance(transition: Square, law: Vector) -> float:
    """max_x TV(P(x, .), pi)."""
    return 0.5 * float(np.abs(transition - law).sum(1).max())


def mixing_time(transition: Square, law: Vector) -> int | float:
    """Least t with max_x TV(P^t(x, .), pi) <= 1/4, from possible states x; infinite beyond
    about 10^12 steps.
    """
    live = np.flatnonzero(law > 0)
    pi = law[live]
    powers = [transition[np.ix_(live, live)]]
    while distance(powers[-1], pi) > WITHIN:
        if 1 << len(powers) > LONGEST:
            return math.inf
        squared = powers[-1] @ powers[-1]
        powers.append(squared / squared.sum(1, keepdims=True))
    too_few, reached = 0, np.eye(len(live))
    for exponent in range(len(powers) - 1, -1, -1):
        further = reached @ powers[exponent]
        if distance(further, pi) > WITHIN:
            too_few, reached = too_few + (1 << exponent), further
    return too_few + 1
