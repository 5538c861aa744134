"""Masked estimators: their covariance in closed form, their losses on data, and fits to samples.

In the limit of many samples sqrt(n) (theta_hat - theta) -> Normal(0, Gamma). With s the score
of the joint and E_K f = E[f(x) | x_{-K}, K], a masked loss sees

    block        s_K = s - E_K s                                     -log p(x_K | x_{-K}, K)
    factorised   s_K = sum_{i in K} ( E[s | x_i, x_{-K}] - E[s | x_{-K}] )
                 -sum_{i in K} log p(x_i | x_{-K})

and Gamma = A^-1 B A^-1 with A the mean Hessian and B the covariance of one sample's
contribution to the gradient:

    one mask per sample          B = E_K Cov(s_K),
                                 and A = B for the block loss, A = I_k = E_K E Cov(s | x_{-K})
    all masks averaged           B = Cov(E[s_K | x]),
                                 for the block loss Cov((I - P) s) with P the block dynamics

v' I_k v is the Dirichlet form of v's under the block dynamics, so Gamma_k <= I^-1 / gap_k
(theorem 1). Maximum likelihood is the block loss with everything masked.

Data are counts n[K, x]: how often state x was seen with mask K. For an exponential family with
features F,

    block        -sum n[K,x] log p_theta(x_K | x_{-K}, K)            gradient  sum n (E_K F - F)
    factorised   -sum n[K,x] sum_{i in K} log p_theta(x_i | x_{-K})  gradient
                 sum n sum_i (E_K F - E[F | x_i, x_{-K}])

The block loss is convex and its curvature is its Hessian; for the factorised loss the curvature
is the expected one (Fisher scoring), which is positive semidefinite and equals the Hessian in
expectation at the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Num
from scipy.optimize import minimize

from unmask.common.errors import InputError
from unmask.studies.lab.dynamics import MaskLaw, gibbs, slowest, uniform_masks
from unmask.studies.lab.model import LabModel, Mask, Space, Theta, Vector

Matrix = Float[np.ndarray, "d d"]
"""Over pairs of parameters."""
Scores = Float[np.ndarray, "S d"]
"""For every state, a number per parameter."""

_SINGULAR = 1e-11
"""Relative size below which an eigenvalue of the mean Hessian counts as zero: its direction is
not identified.
"""
Evaluation = tuple[float, Theta, Float[np.ndarray, "d d"]]
"""Loss per sample, gradient, curvature."""
Members = Int[np.ndarray, "contexts width"]
"""The states of each context."""
Loss = Literal["block", "factorised"]
TOLERANCE = 1e-7
"""The norm of the gradient at which a fit ends."""


def conditional_mean(space: Space, weight: Vector, mask: Mask, f: Scores) -> Scores:
    """E[f | x_{-K}] under an unnormalised weight, (S, d); 0 in contexts without weight."""
    total = space.sum_over(mask, weight)[:, None]
    return np.divide(
        space.sum_over(mask, weight[:, None] * f), total, out=np.zeros_like(f), where=total > 0
    )


def fisher_information(model: LabModel) -> Matrix:
    """I = Cov(s)."""
    return _second_moment(model.p, model.score)


def block_information(model: LabModel, law: MaskLaw) -> Matrix:
    """I_k = E_K E Cov(s | x_{-K}, K), for uniform, weighted and adaptive masks."""
    space = model.space
    total = np.zeros((len(model.theta), len(model.theta)))
    for weight, mask in zip(law.joint(model.p), law.masks, strict=True):
        total += _second_moment(
            weight, model.score - conditional_mean(space, weight, mask, model.score)
        )
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
            f"{law.name}: the factorised loss takes masks that do not look at x: use uniform or"
            " weighted ones"
        )
    d = len(model.theta)
    hessian, noise = np.zeros((d, d)), np.zeros((d, d))
    for chance, mask in zip(law.probability[:, 0], law.masks, strict=True):
        terms = factorised_scores(model, mask)
        hessian += chance * sum((_second_moment(model.p, term) for term in terms), np.zeros((d, d)))
        noise += chance * _second_moment(model.p, np.sum(terms, axis=0))
    return sandwich(hessian, noise)


def factorised_scores(model: LabModel, mask: Mask) -> list[Scores]:
    """The scores of log p(x_i | x_{-K}) for i in K, each (S, d)."""
    context = conditional_mean(model.space, model.p, mask, model.score)
    alone = [tuple(j for j in mask if j != i) for i in mask]
    return [
        conditional_mean(model.space, model.p, others, model.score) - context for others in alone
    ]


def sandwich(hessian: Matrix, noise: Matrix) -> Matrix:
    """A^-1 B A^-1, or infinity throughout where A has a zero eigenvalue: the parameters are not
    identified.
    """
    values = np.linalg.eigvalsh(hessian)
    if values[0] <= _SINGULAR * max(values[-1], np.finfo(float).tiny):
        return np.full_like(hessian, np.inf)
    left = np.linalg.solve(hessian, noise)
    out = np.linalg.solve(hessian, left.T)
    return (out + out.T) / 2


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
    return float(np.linalg.eigvalsh(root.T @ covariance @ root)[-1])


def mean_cost(covariance: Matrix, information: Matrix) -> float:
    """tr(Gamma I) / d: the same ratio, averaged over directions."""
    return (
        float(np.trace(covariance @ information) / len(information))
        if np.isfinite(covariance).all()
        else float("inf")
    )


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
    return model.along(slowest(gibbs(model, 1), model.p)[1])


def drops(curve: list[Matrix]) -> list[float]:
    """Least eigenvalue of Gamma_k - Gamma_{k+1}: negative where more masking made some
    direction worse.

    Where the parameters are not identified Gamma is infinite: the drop to or from it is
    infinite, and none between two such.
    """
    out = []
    for gamma, following in zip(curve, curve[1:], strict=False):
        drop, known, then = (
            gamma - following,
            np.isfinite(gamma).all(),
            np.isfinite(following).all(),
        )
        least = (
            float(np.linalg.eigvalsh((drop + drop.T) / 2)[0])
            if known and then
            else np.inf * (int(then) - int(known))
        )
        out.append(least if known or then else 0.0)
    return out


def _second_moment(weight: Vector, f: Scores) -> Matrix:
    return np.asarray((weight[:, None] * f).T @ f)


class MaskedLoss:
    """The losses of `family` under `law`; data come in as counts n[K, x], (masks, S)."""

    def __init__(self, family: LabModel, law: MaskLaw) -> None:
        self.family, self.law = family, law
        with np.errstate(divide="ignore"):
            self.log_probability = np.log(law.probability)

    @cached_property
    def groups(self) -> list[Members]:
        """For every mask, the states of each context."""
        return [self.family.space.siblings(mask) for mask in self.law.masks]

    @cached_property
    def single_groups(self) -> list[list[tuple[Members, Int[np.ndarray, " parts"]]]]:
        """For every mask K and i in K, the states of each value of (x_i, x_{-K}), and the
        context of each value.
        """
        singles = []
        for mask, members in zip(self.law.masks, self.groups, strict=True):
            context = np.empty(self.family.space.states, dtype=np.intp)
            context[members] = np.arange(len(members))[:, None]
            parts = [self.family.space.siblings(tuple(j for j in mask if j != i)) for i in mask]
            singles.append([(part, context[part[:, 0]]) for part in parts])
        return singles

    def block(self, theta: Theta, counts: Num[np.ndarray, "K S"]) -> Evaluation:
        """The block loss at theta."""
        features, log_weight = self.family.features, self.family.log_p_at(theta)
        loss, gradient = 0.0, np.zeros(features.shape[1])
        curvature = np.zeros((features.shape[1],) * 2)
        for members, seen, log_probability in zip(
            self.groups, counts, self.log_probability, strict=True
        ):
            log_joint = log_weight + log_probability
            cell = log_joint[members]
            peak = cell.max(1, keepdims=True)
            weight = np.exp(cell - peak)
            total = weight.sum(1, keepdims=True)
            weight /= total
            inside = features[members]
            mean = np.einsum("cw,cwd->cd", weight, inside)
            contexts = seen[members].sum(1)
            loss -= float(
                seen @ np.where(seen > 0, log_joint, 0.0) - contexts @ (peak + np.log(total))[:, 0]
            )
            gradient += contexts @ mean - seen @ features
            deviation = inside - mean[:, None]
            scaled = (contexts[:, None] * weight)[..., None] * deviation
            curvature += np.tensordot(scaled, deviation, ([0, 1], [0, 1]))
        n = float(counts.sum())
        return loss / n, gradient / n, curvature / n

    def factorised(self, theta: Theta, counts: Num[np.ndarray, "K S"]) -> Evaluation:
        """The factorised loss at theta."""
        features, p = self.family.features, np.exp(self.family.log_p_at(theta))
        weighted = p[:, None] * features
        loss, gradient = 0.0, np.zeros(features.shape[1])
        curvature = np.zeros((features.shape[1],) * 2)
        for members, singles, seen in zip(self.groups, self.single_groups, counts, strict=True):
            mass, mean = _means(members, p, weighted)
            contexts = seen[members].sum(1)
            for single, above in singles:
                part, part_mean = _means(single, p, weighted)
                seen_part = seen[single].sum(1)
                chance = part / mass[above]
                deviation = part_mean - mean[above]
                loss -= float(seen_part @ np.log(chance))
                gradient -= seen_part @ deviation
                curvature += (deviation * (contexts[above] * chance)[:, None]).T @ deviation
        n = float(counts.sum())
        return loss / n, gradient / n, curvature / n


def _means(
    members: Members, p: Vector, weighted: Float[np.ndarray, "S d"]
) -> tuple[Float[np.ndarray, " contexts"], Float[np.ndarray, "contexts d"]]:
    mass = p[members].sum(1)
    return mass, weighted[members].sum(1) / mass[:, None]


@dataclass(frozen=True)
class Learning:
    """n |theta_hat - theta|^2 over `fits` samples of size n: mean, its standard error, and fits
    that did not converge.
    """

    mean: float
    standard_error: float
    fits: int
    failed: int


def draw_counts(
    model: LabModel, law: MaskLaw, n: int, generator: np.random.Generator
) -> Int[np.ndarray, "K S"]:
    """Counts (masks, S) of n samples x ~ p, each with one mask K ~ p(K | x)."""
    joint = law.joint(model.p)
    return generator.multinomial(n, joint.ravel() / joint.sum()).reshape(joint.shape)


def fit(
    losses: MaskedLoss, counts: Num[np.ndarray, "K S"], loss: Loss = "block"
) -> tuple[Theta, bool]:
    """Parameters that minimise a masked loss, by a trust-region Newton method from zero, and
    whether the gradient vanished.
    """
    evaluate: Callable[[Theta, np.ndarray], Evaluation] = getattr(losses, loss)
    last: list[tuple[Theta, Evaluation]] = []

    def at(theta: Theta) -> Evaluation:
        if not last or not np.array_equal(last[0][0], theta):
            last[:] = [(theta.copy(), evaluate(theta, counts))]
        return last[0][1]

    minimum = minimize(
        lambda t: at(t)[0],
        np.zeros_like(losses.family.theta),
        jac=lambda t: at(t)[1],
        hess=lambda t: at(t)[2],
        method="trust-exact",
        options={"gtol": TOLERANCE, "maxiter": 200},
    )
    return minimum.x, bool(np.linalg.norm(at(minimum.x)[1]) < 10 * TOLERANCE)


def learn(model: LabModel, law: MaskLaw, loss: Loss, n: int, fits: int, seed: int) -> Learning:
    """Fit `fits` independent samples of size n. Fits that do not converge are counted and left
    out of the mean.
    """
    generator = np.random.default_rng(seed)
    losses = MaskedLoss(model, law)
    errors: list[float] = []
    failed = 0
    for _ in range(fits):
        theta, converged = fit(losses, draw_counts(model, law, n, generator), loss)
        failed += not converged
        errors += [n * float(((theta - model.theta) ** 2).sum())] if converged else []
    if len(errors) < 2:
        raise InputError(
            f"{failed} of {fits} fits did not converge on {n} samples: use more samples or weaker"
            " couplings"
        )
    return Learning(
        float(np.mean(errors)), float(np.std(errors, ddof=1) / np.sqrt(len(errors))), fits, failed
    )
