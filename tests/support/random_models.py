"""Models with random probabilities, and masks with given weights."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from scipy.special import softmax

from unmask.studies.lab.dynamics import MaskLaw
from unmask.studies.lab.model import LabModel, Space, ising, table_model


def curie_weiss(sites: int, coupling: float, field=0.0) -> LabModel:
    """Ising on the complete graph: every pair coupled by `coupling`."""
    return ising(coupling, np.broadcast_to(np.asarray(field, dtype=np.float64), (sites,)).copy())


def random_table(sizes, seed: int, scale: float = 1.0) -> LabModel:
    """A strictly positive table with independent normal log-weights of standard deviation
    `scale`.
    """
    log_weight = scale * np.random.default_rng(seed).normal(size=tuple(sizes))
    return table_model(softmax(log_weight), f"random table, seed {seed}")


def random_tables(widest: float, most_sites: int = 4):
    """Tables of 2 to `most_sites` sites of 2 or 3 values, with `scale` from 0.1 to `widest`."""
    return st.builds(
        random_table,
        st.lists(st.integers(2, 3), min_size=2, max_size=most_sites),
        st.integers(0, 10**6),
        st.floats(0.1, widest),
    )


def weighted_masks(space: Space, weights) -> MaskLaw:
    """Masks with probabilities proportional to the given weights, whatever the state."""
    masks = tuple(tuple(sorted(mask)) for mask in weights)
    probs = np.array([[weight] for weight in weights.values()]) / sum(weights.values())
    return MaskLaw("weighted", space, masks, probs)


def adaptive_masks(
    space: Space, k: int, log_weight: Callable[[tuple[int, ...]], np.ndarray]
) -> MaskLaw:
    """Masks of k sites with p(K | x) proportional to exp(log_weight(K)(x))."""
    masks = space.masks(k)
    return MaskLaw(
        "adaptive", space, masks, softmax(np.stack([log_weight(mask) for mask in masks]), axis=0)
    )


def least_eigenvalue(matrix: np.ndarray) -> float:
    """Smallest eigenvalue: negative where the Loewner order fails."""
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
