"""How much of a model's error the conditionals can hide: approximate tensorisation of entropy.

For masks K ~ p_K that do not look at x, the least constant C with

    KL(q || p)  <=  C  E_K E_{x_{-K} ~ q} KL( q(x_K | x_{-K}) || p(x_K | x_{-K}) )        for every q.

The right side is the excess masked loss of the model p on data q, the left side what one would like to know. By the chain
rule the expectation is KL(q || p) - E_K KL(q_{-K} || p_{-K}). Near p the two sides are a variance and a Dirichlet form, so
C >= 1 / gap; for independent sites and masks of size k, C = N / k.

The supremum is searched for by L-BFGS from several starts: the answer is attained, hence a lower bound on C.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from unmask.errors import InputError
from unmask.lab.dynamics import block_dynamics
from unmask.lab.mask_law import MaskLaw
from unmask.lab.model import LabModel
from unmask.lab.space import Vector
from unmask.lab.spectrum import slowest

_TOO_CLOSE = 1e-7
"""Below this divergence the ratio is rounding error; its limit there is 1 / gap, which is taken from the spectrum."""


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
