"""Estimators in the limit of many samples: sqrt(n) (theta_hat - theta) -> Normal(0, Gamma), Gamma in closed form.

With s the score of the joint and E_K f = E[f(x) | x_{-K}, K], a masked loss sees

    block        s_K = s - E_K s                                     -log p(x_K | x_{-K}, K)
    factorised   s_K = sum_{i in K} ( E[s | x_i, x_{-K}] - E[s | x_{-K}] )   -sum_{i in K} log p(x_i | x_{-K})

and Gamma = A^-1 B A^-1 with A the mean Hessian and B the covariance of what one sample contributes to the gradient:

    one mask per sample          B = E_K Cov(s_K),      and A = B for the block loss, A = I_k = E_K E Cov(s | x_{-K})
    all masks averaged           B = Cov(E[s_K | x]),   for the block loss Cov((I - P) s) with P the block dynamics

v' I_k v is the Dirichlet form of v's under the block dynamics, so Gamma_k <= I^-1 / gap_k (theorem 1). Maximum likelihood
is the block loss with everything masked.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from unmask.errors import InputError
from unmask.lab.mask_law import MaskLaw
from unmask.lab.model import LabModel
from unmask.lab.space import Mask, Space, Vector

Matrix = Float[np.ndarray, "d d"]
"""Over pairs of parameters."""
Scores = Float[np.ndarray, "S d"]
"""For every state, a number per parameter."""

_SINGULAR = 1e-11
"""Relative size below which an eigenvalue of the mean Hessian counts as zero: that parameter cannot be found."""


def conditional_mean(space: Space, weight: Vector, mask: Mask, f: Scores) -> Scores:
    """E[f | x_{-K}] under an unnormalised weight, (S, d); 0 in contexts without weight."""
    total = space.sum_over(mask, weight)[:, None]
    return np.divide(space.sum_over(mask, weight[:, None] * f), total, out=np.zeros_like(f), where=total > 0)


def fisher_information(model: LabModel) -> Matrix:
    """I = Cov(s)."""
    return _second_moment(model.p, model.score)


def block_information(model: LabModel, law: MaskLaw) -> Matrix:
    """I_k = E_K E Cov(s | x_{-K}, K), for uniform, weighted and adaptive masks."""
    space = model.space
    total = np.zeros((len(model.theta), len(model.theta)))
    for weight, mask in zip(law.joint(model.p), law.masks, strict=True):
        total += _second_moment(weight, model.score - conditional_mean(space, weight, mask, model.score))
    return total


def block_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the block loss with one mask per sample: I_k^-1."""
    information = block_information(model, law)
    return sandwich(information, information)


def averaged_block_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the block loss with all masks of every sample averaged."""
    space, contribution = model.space, np.zeros_like(model.score)
    for index, (weight, mask) in enumerate(zip(law.joint(model.p), law.masks, strict=True)):
        inside = model.score - conditional_mean(space, weight, mask, model.score)
        contribution += law.at(index)[:, None] * inside
    return sandwich(block_information(model, law), _second_moment(model.p, contribution))


def factorised_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the factorised loss with one mask per sample."""
    if law.adaptive:
        raise InputError(
            f"{law.name}: the factorised loss is computed for masks that do not look at x; use uniform or weighted ones"
        )
    d = len(model.theta)
    hessian, noise = np.zeros((d, d)), np.zeros((d, d))
    for chance, mask in zip(law.given[:, 0], law.masks, strict=True):
        terms = factorised_scores(model, mask)
        hessian += chance * sum((_second_moment(model.p, term) for term in terms), np.zeros((d, d)))
        noise += chance * _second_moment(model.p, np.sum(terms, axis=0))
    return sandwich(hessian, noise)


def factorised_scores(model: LabModel, mask: Mask) -> list[Scores]:
    """The scores of log p(x_i | x_{-K}) for i in K, each (S, d)."""
    context = conditional_mean(model.space, model.p, mask, model.score)
    alone = [tuple(j for j in mask if j != i) for i in mask]
    return [conditional_mean(model.space, model.p, others, model.score) - context for others in alone]


def sandwich(hessian: Matrix, noise: Matrix) -> Matrix:
    """A^-1 B A^-1, or infinity throughout where A has a zero eigenvalue: the parameters are not identified."""
    values = np.linalg.eigvalsh(hessian)
    if values[0] <= _SINGULAR * max(values[-1], np.finfo(float).tiny):
        return np.full_like(hessian, np.inf)
    left = np.linalg.solve(hessian, noise)
    out = np.linalg.solve(hessian, left.T)
    return (out + out.T) / 2


def worst_cost(covariance: Matrix, information: Matrix) -> float:
    """Largest v' Gamma v / v' I^-1 v: how many times the samples of maximum likelihood the worst direction needs."""
    if not np.isfinite(covariance).all():
        return float("inf")
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        raise InputError(
            "the model is so peaked that its information matrix is singular in float64: use weaker couplings"
        ) from None
    return float(np.linalg.eigvalsh(root.T @ covariance @ root)[-1])


def mean_cost(covariance: Matrix, information: Matrix) -> float:
    """tr(Gamma I) / d: the same ratio, averaged over directions."""
    return float(np.trace(covariance @ information) / len(information)) if np.isfinite(covariance).all() else float("inf")


def least_eigenvalue(matrix: Matrix) -> float:
    """Smallest eigenvalue: negative where the Loewner order fails."""
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])


def _second_moment(weight: Vector, f: Scores) -> Matrix:
    return np.asarray((weight[:, None] * f).T @ f)
