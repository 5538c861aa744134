"""How masks are drawn: p(K | x).

Uniform masks of size k and weighted masks do not look at x. Adaptive masks do, and then seeing which mask was drawn
tells something about the masked tokens: the model's conditional must be

    p(x_K | x_{-K}, K)  proportional to  p(x) p(K | x),

not p(x_K | x_{-K}). Every law here is the table `given[K, x] = p(K | x)`, with a single column where x does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from unmask.errors import InputError
from unmask.lab.model import LabModel
from unmask.lab.space import Mask, Space, Vector


@dataclass(frozen=True)
class MaskLaw:
    """Masks and their probabilities given the state: `given` is (masks, S), or (masks, 1) where x does not matter."""

    name: str
    space: Space
    masks: tuple[Mask, ...]
    given: Float[np.ndarray, "K states"]

    def __post_init__(self) -> None:
        states = self.space.states
        if self.given.shape not in ((len(self.masks), 1), (len(self.masks), states)):
            raise InputError(
                f"{self.name}: a table {self.given.shape} of p(K | x) for {len(self.masks)} masks and {states} states"
            )
        total = self.given.sum(0)
        if self.given.min() < 0 or not np.allclose(total, 1, atol=1e-9):
            raise InputError(f"{self.name}: probabilities of masks must be at least 0 and sum to 1, not to {total.min():.6g}")

    @property
    def adaptive(self) -> bool:
        """Whether the masks look at the state."""
        return self.given.shape[1] > 1

    def at(self, mask: int) -> Vector:
        """p(K | x) of one mask for all states, (S,)."""
        return np.broadcast_to(self.given[mask], (self.space.states,))

    def joint(self, p: Vector) -> Float[np.ndarray, "K S"]:
        """p(x) p(K | x), (masks, S)."""
        if len(p) != self.space.states:
            raise InputError(f"{self.name}: made for {self.space.states} states, used with {len(p)}")
        return self.given * p


def uniform_masks(space: Space, k: int) -> MaskLaw:
    """All masks of k sites alike: k-Gibbs, k-MPLE."""
    masks = space.masks(k)
    return MaskLaw(f"k={k}", space, masks, np.full((len(masks), 1), 1 / len(masks)))


def weighted_masks(space: Space, weights: Mapping[Sequence[int], float], name: str = "weighted") -> MaskLaw:
    """Masks with given weights, normalised to sum to 1."""
    total = sum(weights.values())
    if not weights or min(weights.values()) < 0 or not 0 < total < np.inf:
        raise InputError(f"{name}: give masks with weights of at least 0, not all 0")
    masks = tuple(space.check(mask) for mask in weights)
    return MaskLaw(name, space, masks, np.array([[w / total] for w in weights.values()]))


def adaptive_masks(space: Space, k: int, log_weight: Callable[[Mask], Vector], name: str = "adaptive") -> MaskLaw:
    """Masks of k sites with p(K | x) proportional to exp(log_weight(K)(x))."""
    masks = space.masks(k)
    return MaskLaw(name, space, masks, softmax(np.stack([log_weight(mask) for mask in masks]), axis=0))


def surprise_masks(model: LabModel, k: int, sharpness: float = 1.0) -> MaskLaw:
    """Masks that prefer tokens the model finds improbable: log p(K | x) = -sharpness sum_{i in K} log p(x_i | x_{-i}) + c(x).

    What mask-predict does when it re-masks the tokens it is least sure of; `sharpness` 0 is uniform.
    """
    space = model.space
    if model.p.min() <= 0:
        raise InputError(f"{model.name}: surprise needs every state possible; smooth the table first")
    surprise = [np.log(space.sum_over((i,), model.p)) - model.log_p for i in range(space.sites)]

    def log_weight(mask: Mask) -> Vector:
        return sharpness * np.sum([surprise[i] for i in mask], axis=0)

    return adaptive_masks(space, k, log_weight, f"k={k} adaptive")
