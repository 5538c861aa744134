"""Masked estimators: their covariance in closed form.

In the limit of many samples sqrt(n) (theta_hat - theta) -> Normal(0, Gamma). With s the score
of the joint and E_K f = E[f(x) | x_{-K}, K], minus the gradient of a masked loss of one sample
is s_K:

    block        loss   -log p(x_K | x_{-K}, K)
                 s_K    s - E_K s
    factorised   loss   -sum_{i in K} log p(x_i | x_{-K})
                 s_K    sum_{i in K} ( E[s | x_i, x_{-K}] - E[s | x_{-K}] )

and Gamma = A^-1 B A^-1. A is the mean Hessian of the loss:

    block        A = I_k = E_K E Cov(s | x_{-K})
    factorised   A = E_K sum_{i in K} Cov(s_{K,i}),  s_{K,i} the term of s_K for i

B is the covariance of one sample's contribution to the gradient:

    one mask per sample    B = E_K Cov(s_K); for the block loss this is I_k, so Gamma = I_k^-1
    all masks averaged     B = Cov(E[s_K | x]);
                           for the block loss Cov((I - P) s) with P the block dynamics

For a vector v, v' I_k v is the Dirichlet form of the function v' s under the block dynamics. So
the block loss with one mask per sample has Gamma_k <= I^-1 / gap_k (theorem 1). Maximum
likelihood is the block loss with everything masked.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Float

from unmask.common.errors import InputError
from unmask.studies.lab.dynamics import MaskLaw, gibbs, slowest, uniform_masks
from unmask.studies.lab.model import LabModel, Mask, Space, Vector

Matrix = Float[np.ndarray, "d d"]
"""A row and a column per parameter."""
Scores = Float[np.ndarray, "S d"]
"""For every state, a number per parameter."""
SINGULAR = 1e-11
"""Relative size below which an eigenvalue of the mean Hessian counts as zero: its direction is
not identified.
"""


def conditional_mean(space: Space, weight: Vector, mask: Mask, f: Scores) -> Scores:
    """E[f | x_{-K}] for every state, (S, d), under an unnormalised weight of the states; 0 in
    contexts without weight.
    """
    total = space.sum_over(mask, weight)[:, None]
    weighted = space.sum_over(mask, weight[:, None] * f)
    return np.divide(weighted, total, out=np.zeros_like(f), where=total > 0)


def second_moment(weight: Vector, f: Scores) -> Matrix:
    """sum_x w(x) f(x) f(x)'."""
    return np.asarray((weight[:, None] * f).T @ f)


def fisher_information(model: LabModel) -> Matrix:
    """I = Cov(s)."""
    return second_moment(model.p, model.score)


def block_information(model: LabModel, law: MaskLaw) -> Matrix:
    """I_k = E_K E Cov(s | x_{-K}, K), for uniform, weighted and adaptive masks."""
    parameters = len(model.theta)
    information = np.zeros((parameters, parameters))
    for weight, mask in zip(law.joint(model.p), law.masks, strict=True):
        context_mean = conditional_mean(model.space, weight, mask, model.score)
        information += second_moment(weight, model.score - context_mean)
    return information


def block_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the block loss with one mask per sample: I_k^-1."""
    information = block_information(model, law)
    return sandwich(information, information)


def averaged_block_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the block loss with all masks of every sample averaged."""
    contribution = np.zeros_like(model.score)  # E[s_K | x], (S, d)
    for index, (weight, mask) in enumerate(zip(law.joint(model.p), law.masks, strict=True)):
        context_mean = conditional_mean(model.space, weight, mask, model.score)
        contribution += law.at(index)[:, None] * (model.score - context_mean)
    noise = second_moment(model.p, contribution)
    return sandwich(block_information(model, law), noise)


def factorised_covariance(model: LabModel, law: MaskLaw) -> Matrix:
    """Gamma of the factorised loss with one mask per sample."""
    if law.adaptive:
        raise InputError(
            f"{law.name}: the factorised loss takes masks that do not look at x: use uniform or"
            " weighted ones"
        )
    parameters = len(model.theta)
    hessian = np.zeros((parameters, parameters))
    noise = np.zeros((parameters, parameters))
    chances = law.probability[:, 0]  # p(K | x), the same for every x
    for chance, mask in zip(chances, law.masks, strict=True):
        terms = factorised_scores(model, mask)
        hessian_of_mask = np.zeros((parameters, parameters))
        for term in terms:
            hessian_of_mask += second_moment(model.p, term)
        hessian += chance * hessian_of_mask
        noise += chance * second_moment(model.p, np.sum(terms, axis=0))
    return sandwich(hessian, noise)


def factorised_scores(model: LabModel, mask: Mask) -> list[Scores]:
    """E[s | x_i, x_{-K}] - E[s | x_{-K}], the score of log p(x_i | x_{-K}), for each i in K;
    each (S, d).
    """
    context_mean = conditional_mean(model.space, model.p, mask, model.score)
    scores = []
    for site in mask:
        others = tuple(other for other in mask if other != site)  # given x_i, these are unknown
        site_mean = conditional_mean(model.space, model.p, others, model.score)
        scores.append(site_mean - context_mean)
    return scores


def sandwich(hessian: Matrix, noise: Matrix) -> Matrix:
    """A^-1 B A^-1, or infinity throughout where A has a zero eigenvalue: the parameters are not
    identified.
    """
    eigenvalues = np.linalg.eigvalsh(hessian)
    largest = max(eigenvalues[-1], np.finfo(float).tiny)
    if eigenvalues[0] <= SINGULAR * largest:
        return np.full_like(hessian, np.inf)
    left = np.linalg.solve(hessian, noise)  # A^-1 B
    covariance = np.linalg.solve(hessian, left.T)  # A^-1 (A^-1 B)': A and B are symmetric
    return (covariance + covariance.T) / 2


def worst_cost(covariance: Matrix, information: Matrix) -> float:
    """Largest v' Gamma v / v' I^-1 v: how many times the samples of maximum likelihood the
    worst direction needs.
    """
    if not np.isfinite(covariance).all():
        return float("inf")
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        raise InputError(
            "the model is so peaked that its information is singular in float64: use weaker"
            " couplings"
        ) from None
    # With I = L L' and v = L w the ratio is w' (L' Gamma L) w / w' w.
    ratios = np.linalg.eigvalsh(root.T @ covariance @ root)
    return float(ratios[-1])


def mean_cost(covariance: Matrix, information: Matrix) -> float:
    """tr(Gamma I) / d: the ratio of `worst_cost`, averaged over directions."""
    if not np.isfinite(covariance).all():
        return float("inf")
    return float(np.trace(covariance @ information) / len(information))


ESTIMATORS = {
    "block": block_covariance,
    "factorised": factorised_covariance,
    "averaged": averaged_block_covariance,
}


def covariances(model: LabModel) -> dict[str, list[Matrix]]:
    """Gamma_k of the three estimators, for k = 1..N."""
    laws = [uniform_masks(model.space, k) for k in range(1, model.space.sites + 1)]
    return {
        name: [covariance(model, law) for law in laws] for name, covariance in ESTIMATORS.items()
    }


def slow_direction(model: LabModel) -> LabModel:
    """The one-parameter family along which single-site Gibbs is slowest."""
    _, slowest_function = slowest(gibbs(model, 1), model.p)
    return model.along(slowest_function)


def drops(by_size: list[Matrix]) -> list[float]:
    """The least eigenvalue of each Gamma_k - Gamma_{k+1}; `by_size` has Gamma_1, Gamma_2, ...
    It is negative where one more masked site made some direction worse.
    """
    return [_least_drop(gamma, following) for gamma, following in pairwise(by_size)]


def _least_drop(gamma: Matrix, following: Matrix) -> float:
    """The least eigenvalue of gamma - following.

    A Gamma is infinite if its parameters are not identified. The drop is then -inf if only
    `following` is infinite, inf if only `gamma` is, and 0 if both are.
    """
    identified = bool(np.isfinite(gamma).all())
    then_identified = bool(np.isfinite(following).all())
    if identified and then_identified:
        drop = gamma - following
        return float(np.linalg.eigvalsh((drop + drop.T) / 2)[0])
    if identified:
        return -np.inf
    if then_identified:
        return np.inf
    return 0.0
