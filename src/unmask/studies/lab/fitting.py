"""Masked losses on data, and fits to samples.

Data are counts n[K, x]: how often state x was seen with mask K. For an exponential family with
features F,

    block        -sum n[K,x] log p_theta(x_K | x_{-K}, K)            gradient  sum n (E_K F - F)
    factorised   -sum n[K,x] sum_{i in K} log p_theta(x_i | x_{-K})  gradient
                 sum n sum_i (E_K F - E[F | x_i, x_{-K}])

The block loss is convex and its curvature is its Hessian. For the factorised loss the curvature
is the expected one (Fisher scoring), which is positive semidefinite and equals the Hessian in
expectation at the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num
from numpy.typing import NDArray
from scipy.optimize import minimize

from unmask.common.errors import InputError
from unmask.studies.lab.dynamics import MaskLaw
from unmask.studies.lab.model import LabModel, Theta, Vector

Loss = Literal["block", "factorised"]
Members = Int[np.ndarray, "contexts width"]
"""The states of each context."""
TOLERANCE = 1e-7
"""The norm of the gradient at which a fit ends."""
MOST_STEPS = 200
"""Of one fit."""


class Evaluation(NamedTuple):
    """A loss at some parameters: its value per sample, (d,) and (d, d)."""

    loss: float
    gradient: Theta
    curvature: Float[np.ndarray, "d d"]


class SingleSite(NamedTuple):
    """One masked site i of a mask K: the values of (x_i, x_{-K}), each a group of states.

    members   the states of each group
    context   for each group the number of its context x_{-K}
    """

    members: Members
    context: Int[np.ndarray, " parts"]


class MaskedLoss:
    """The losses of `family` under `law`; data come in as counts n[K, x], (masks, S)."""

    def __init__(self, family: LabModel, law: MaskLaw) -> None:
        self.family = family
        self.law = law
        with np.errstate(divide="ignore"):  # log 0 = -inf: this mask never comes with this state
            self.log_probability: NDArray[np.float64] = np.log(law.probability)

    @cached_property
    def groups(self) -> list[Members]:
        """For every mask, the states of each context."""
        return [self.family.space.siblings(mask) for mask in self.law.masks]

    @cached_property
    def single_sites(self) -> list[list[SingleSite]]:
        """For every mask its sites."""
        space = self.family.space
        by_mask = []
        for mask, members in zip(self.law.masks, self.groups, strict=True):
            context_of_state = np.empty(space.states, dtype=np.intp)
            context_of_state[members] = np.arange(len(members))[:, None]
            sites = []
            for site in mask:
                others = tuple(other for other in mask if other != site)
                groups = space.siblings(others)
                # The states of a group share their context: the first one tells it.
                sites.append(SingleSite(groups, context_of_state[groups[:, 0]]))
            by_mask.append(sites)
        return by_mask

    def block(self, theta: Theta, counts: Num[np.ndarray, "K S"]) -> Evaluation:
        """The block loss at theta."""
        features = self.family.features
        log_weight = self.family.log_p_at(theta)
        parameters = features.shape[1]
        loss = 0.0
        gradient = np.zeros(parameters)
        curvature = np.zeros((parameters, parameters))
        for members, seen, log_probability in zip(
            self.groups, counts, self.log_probability, strict=True
        ):
            log_joint = log_weight + log_probability  # log p(x) p(K | x)
            cells = log_joint[members]
            peak = cells.max(1, keepdims=True)
            weight = np.exp(cells - peak)
            total = weight.sum(1, keepdims=True)
            weight /= total  # p(x_K | x_{-K}, K), a row per context
            features_inside = features[members]
            mean = np.einsum("cw,cwd->cd", weight, features_inside)  # E_K F
            of_context = seen[members].sum(1)  # samples
            log_total = (peak + np.log(total))[:, 0]
            # A state that was not seen may have log 0, and 0 times -inf is NaN.
            log_seen = np.where(seen > 0, log_joint, 0.0)
            loss -= float(seen @ log_seen - of_context @ log_total)
            gradient += of_context @ mean - seen @ features
            deviation = features_inside - mean[:, None]
            scaled = (of_context[:, None] * weight)[..., None] * deviation
            curvature += np.tensordot(scaled, deviation, ([0, 1], [0, 1]))
        n = float(counts.sum())
        return Evaluation(loss / n, gradient / n, curvature / n)

    def factorised(self, theta: Theta, counts: Num[np.ndarray, "K S"]) -> Evaluation:
        """The factorised loss at theta."""
        features = self.family.features
        p = np.exp(self.family.log_p_at(theta))
        weighted = p[:, None] * features
        parameters = features.shape[1]
        loss = 0.0
        gradient = np.zeros(parameters)
        curvature = np.zeros((parameters, parameters))
        for members, sites, seen in zip(self.groups, self.single_sites, counts, strict=True):
            mass, mean = _masses_and_means(members, p, weighted)
            of_context = seen[members].sum(1)  # samples
            for groups, context in sites:
                part, part_mean = _masses_and_means(groups, p, weighted)
                of_group = seen[groups].sum(1)  # samples
                chance = part / mass[context]  # p(x_i | x_{-K})
                deviation = part_mean - mean[context]
                loss -= float(of_group @ np.log(chance))
                gradient -= of_group @ deviation
                scaled = deviation * (of_context[context] * chance)[:, None]
                curvature += scaled.T @ deviation
        n = float(counts.sum())
        return Evaluation(loss / n, gradient / n, curvature / n)


def _masses_and_means(
    groups: Members, p: Vector, weighted: Float[np.ndarray, "S d"]
) -> tuple[Float[np.ndarray, " contexts"], Float[np.ndarray, "contexts d"]]:
    """Of each group of states the probability, and the mean of F. `weighted` is p F."""
    mass = p[groups].sum(1)
    mean = weighted[groups].sum(1) / mass[:, None]
    return mass, mean


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
    chances = joint.ravel() / joint.sum()
    return generator.multinomial(n, chances).reshape(joint.shape)


def fit(
    losses: MaskedLoss, counts: Num[np.ndarray, "K S"], loss: Loss = "block"
) -> tuple[Theta, bool]:
    """Parameters that minimise a masked loss, by a trust-region Newton method from zero, and
    whether the gradient vanished.
    """
    evaluate: Callable[[Theta, np.ndarray], Evaluation]
    if loss == "block":
        evaluate = losses.block
    else:
        evaluate = losses.factorised
    start = np.zeros_like(losses.family.theta)
    last_theta = start
    last_evaluation = evaluate(start, counts)

    def at(theta: Theta) -> Evaluation:
        """The loss at theta. scipy asks for value, gradient and curvature one after the other,
        at the same parameters: the last evaluation is kept.
        """
        nonlocal last_theta, last_evaluation
        if not np.array_equal(last_theta, theta):
            last_evaluation = evaluate(theta, counts)
            last_theta = theta
        return last_evaluation

    minimum = minimize(
        lambda theta: at(theta).loss,
        start,
        jac=lambda theta: at(theta).gradient,
        hess=lambda theta: at(theta).curvature,
        method="trust-exact",
        options={"gtol": TOLERANCE, "maxiter": MOST_STEPS},
    )
    slope = np.linalg.norm(at(minimum.x).gradient)
    # A fit that ran out of steps counts as well, if it came within ten times the tolerance.
    return minimum.x, bool(slope < 10 * TOLERANCE)


def learn(model: LabModel, law: MaskLaw, loss: Loss, n: int, fits: int, seed: int) -> Learning:
    """Fit `fits` independent samples of size n. Fits that do not converge are counted and left
    out of the mean.
    """
    generator = np.random.default_rng(seed)
    losses = MaskedLoss(model, law)
    squared_errors: list[float] = []  # times n
    failed = 0
    for _ in range(fits):
        counts = draw_counts(model, law, n, generator)
        theta, converged = fit(losses, counts, loss)
        if converged:
            squared_errors.append(n * float(((theta - model.theta) ** 2).sum()))
        else:
            failed += 1
    if len(squared_errors) < 2:  # one has no standard error
        raise InputError(
            f"{failed} of {fits} fits did not converge on {n} samples: use more samples or weaker"
            " couplings"
        )
    mean = float(np.mean(squared_errors))
    deviation = np.std(squared_errors, ddof=1)
    standard_error = float(deviation / np.sqrt(len(squared_errors)))
    return Learning(
        mean=mean,
        standard_error=standard_error,
        fits=fits,
        failed=failed,
    )
