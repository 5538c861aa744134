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
"""The total variation from the stationary law at which a chain counts as mixed."""
LONGEST = 1 << 40
"""Mixing times above this many steps are reported as infinite: rounding errors of the powers
would decide them.
"""


@dataclass(frozen=True)
class MaskLaw:
    """Masks and their probabilities given the state.

    probability   p(K | x), (masks, S), or (masks, 1) where x does not matter
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
    probability = np.full((len(masks), 1), 1 / len(masks))
    return MaskLaw(name=f"k={k}", space=space, masks=masks, probability=probability)


def surprise_masks(model: LabModel, k: int, sharpness: float = 1.0) -> MaskLaw:
    """Masks that prefer tokens the model finds improbable:

        log p(K | x) = -sharpness sum_{i in K} log p(x_i | x_{-i}) + c(x)

    Mask-predict does this when it masks its least probable tokens again; `sharpness` 0 is uniform.
    """
    space = model.space
    if model.p.min() <= 0:
        raise InputError(
            f"{model.name}: surprise needs every state possible; smooth the table first"
        )
    masks = space.masks(k)
    surprise = []  # -log p(x_i | x_{-i}), (S,) for each site
    for site in range(space.sites):
        log_context = np.log(space.sum_over((site,), model.p))
        surprise.append(log_context - model.log_p)
    log_weights = []
    for mask in masks:
        of_mask = np.sum([surprise[site] for site in mask], axis=0)
        log_weights.append(sharpness * of_mask)
    probability = softmax(np.stack(log_weights), axis=0)
    return MaskLaw(name=f"k={k} adaptive", space=space, masks=masks, probability=probability)


def conditional(space: Space, weight: Vector, mask: Mask) -> Vector:
    """w(x) / sum_K w: the probability of x_K given x_{-K} under an unnormalised w, 0 in
    contexts without weight.
    """
    total = space.sum_over(mask, weight)
    return np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)


def product_conditional(space: Space, p: Vector, mask: Mask) -> Vector:
    """prod_{i in K} p(x_i | x_{-K}), 0 in contexts without weight."""
    total = space.sum_over(mask, p)
    chance = np.where(total > 0, 1.0, 0.0)
    for site in mask:
        others = tuple(other for other in mask if other != site)
        single = space.sum_over(others, p)
        chance = chance * np.divide(single, total, out=np.zeros_like(p), where=total > 0)
    return chance


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


def _assemble(law: MaskLaw, chances: Callable[[int, Mask], Vector]) -> Square:
    """The chain that draws K ~ p(K | x), and then the next state among those that share the
    context x_{-K}.

    chances   of a mask, by its number and its sites: the probability of each state given its
              context, (S,)
    """
    space = law.space
    transition = np.zeros((space.states, space.states))
    for index, mask in enumerate(law.masks):
        mask_chance = law.at(index)
        state_chance = chances(index, mask)
        groups = space.siblings(mask)
        width = groups.shape[1]
        # All pairs of states of each group, from one to the other.
        origins = np.repeat(groups, width, axis=1).ravel()
        ends = np.tile(groups, (1, width)).ravel()
        transition[origins, ends] += mask_chance[origins] * state_chance[ends]
        possible = space.sum_over(mask, state_chance) > 0  # otherwise the state stays as it is
        transition[np.diag_indices(space.states)] += np.where(possible, 0.0, mask_chance)
    return transition


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


def _closed_class(transition: Square) -> Int[np.ndarray, " closed"]:
    """The states of the one class that the chain cannot leave."""
    possible = transition > 0
    classes, class_of = connected_components(
        csr_array(possible), directed=True, connection="strong"
    )
    origins, ends = np.nonzero(possible)
    crosses = class_of[origins] != class_of[ends]
    is_left = np.zeros(classes, dtype=bool)  # whether a step leads out of the class
    is_left[class_of[origins[crosses]]] = True
    closed = np.flatnonzero(~is_left)
    if len(closed) != 1:
        raise InputError(
            f"the chain has {len(closed)} classes of states that it cannot leave: it has no single"
            " stationary law"
        )
    return np.flatnonzero(class_of == closed[0])


def _eliminated(transition: Square) -> Vector:
    """The stationary law of an irreducible chain. The matrix is overwritten.

    1. States are taken out from the last to the second: the remaining ones get the chain that
       is watched only while it is in one of them.
    2. States are put back, each with its weight relative to those before it.
    """
    states = len(transition)
    for n in range(states - 1, 0, -1):
        transition[:n, n] /= transition[n, :n].sum()
        transition[:n, :n] += np.outer(transition[:n, n], transition[n, :n])
    law = np.ones(states)
    for n in range(1, states):
        law[n] = law[:n] @ transition[:n, n]
    return np.asarray(law / law.sum())


def dirichlet_form(transition: Square, law: Vector, f: Vector) -> float:
    """E(f, f) = 1/2 sum pi(x) P(x, y) (f(x) - f(y))^2: a sum of squares, so that it loses
    nothing to cancellation.
    """
    return 0.5 * float((law[:, None] * transition * (f[:, None] - f) ** 2).sum())


def slowest(transition: Square, law: Vector) -> tuple[float, Vector]:
    """The gap 1 - lambda_2 of a reversible chain, and its eigenfunction, (S,), with E f = 0 and
    Var f = 1. Its largest value by size is positive.
    """
    possible = np.flatnonzero(law > 0)
    root = np.sqrt(law[possible])
    last = len(possible) - 1
    # D^1/2 P D^-1/2 with D the law is symmetric, and has the eigenvalues of P. Its eigenvector of
    # 1 is D^1/2: moved to -1, it leaves lambda_2 as the largest.
    similar = root[:, None] * transition[np.ix_(possible, possible)] / root
    symmetric = (similar + similar.T) / 2
    _, vectors = eigh(symmetric - 2 * np.outer(root, root), subset_by_index=[last, last])
    f = np.zeros(len(law))
    f[possible] = vectors[:, 0] / root
    f[possible] -= law[possible] @ f[possible]
    variance = float(law @ f**2)
    gap = dirichlet_form(transition, law, f) / variance
    sign = np.sign(f[np.abs(f).argmax()])
    f *= sign / math.sqrt(variance)
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
    possible = np.flatnonzero(law > 0)
    pi = law[possible]
    powers = [transition[np.ix_(possible, possible)]]  # P^(2^i)
    while distance(powers[-1], pi) > WITHIN:
        if 1 << len(powers) > LONGEST:
            return math.inf
        squared = powers[-1] @ powers[-1]
        # Rows sum to 1 again, so that rounding errors do not grow with each square.
        powers.append(squared / squared.sum(1, keepdims=True))
    # The largest number of steps that are too few, from its highest binary digit.
    too_few = 0
    reached = np.eye(len(possible))  # P^too_few
    for exponent in range(len(powers) - 1, -1, -1):
        further = reached @ powers[exponent]
        if distance(further, pi) > WITHIN:
            too_few += 1 << exponent
            reached = further
    return too_few + 1
