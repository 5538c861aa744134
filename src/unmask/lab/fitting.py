"""Fits of a family to samples, and Monte Carlo over samples: n E |theta_hat - theta|^2 against the trace of Gamma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int, Num
from scipy.optimize import minimize

from unmask.errors import InputError
from unmask.lab.losses import Evaluation, MaskedLoss
from unmask.lab.mask_law import MaskLaw
from unmask.lab.model import LabModel, Theta

Loss = Literal["block", "factorised"]


@dataclass(frozen=True)
class Fit:
    """Parameters that minimise a masked loss, the loss there, and whether the gradient vanished."""

    theta: Theta
    loss: float
    converged: bool


@dataclass(frozen=True)
class Learning:
    """n |theta_hat - theta|^2 over `fits` samples of size n: mean, its standard error, and fits that did not converge."""

    mean: float
    standard_error: float
    fits: int
    failed: int


def draw(model: LabModel, law: MaskLaw, n: int, generator: np.random.Generator) -> Int[np.ndarray, "K S"]:
    """Counts (masks, S) of n samples x ~ p, each with one mask K ~ p(K | x)."""
    if n < 1:
        raise InputError(f"{n} samples: use at least 1")
    joint = law.joint(model.p)
    return generator.multinomial(n, joint.ravel() / joint.sum()).reshape(joint.shape)


def fit(
    losses: MaskedLoss, counts: Num[np.ndarray, "K S"], loss: Loss = "block", start: Theta | None = None, tolerance: float = 1e-7
) -> Fit:
    """Minimise a masked loss by a trust-region Newton method (scipy's trust-exact), from zero unless told otherwise."""
    evaluate: Callable[[Theta, np.ndarray], Evaluation] = getattr(losses, loss)
    last: list[tuple[Theta, Evaluation]] = []

    def at(theta: Theta) -> Evaluation:
        if not last or not np.array_equal(last[0][0], theta):
            last[:] = [(theta.copy(), evaluate(theta, counts))]
        return last[0][1]

    first = np.zeros_like(losses.family.theta) if start is None else start
    found = minimize(
        lambda t: at(t)[0],
        first,
        jac=lambda t: at(t)[1],
        hess=lambda t: at(t)[2],
        method="trust-exact",
        options={"gtol": tolerance, "maxiter": 200},
    )
    gradient = at(found.x)[1]
    return Fit(found.x, float(found.fun), bool(np.linalg.norm(gradient) < 10 * tolerance))


def learn(
    model: LabModel,
    law: MaskLaw,
    loss: Loss,
    n: int,
    fits: int,
    seed: int,
    progress: Callable[[], None] | None = None,
) -> Learning:
    """Fit `fits` independent samples of size n. Fits that do not converge are counted and left out of the mean."""
    if fits < 2:
        raise InputError(f"{fits} fits: a standard error needs at least 2")
    generator = np.random.default_rng(seed)
    losses = MaskedLoss(model, law)
    errors, failed = [], 0
    for _ in range(fits):
        result = fit(losses, draw(model, law, n, generator), loss)
        if result.converged:
            errors.append(n * float(((result.theta - model.theta) ** 2).sum()))
        else:
            failed += 1
        if progress:
            progress()
    if len(errors) < 2:
        raise InputError(f"{failed} of {fits} fits did not converge on {n} samples: use more samples or weaker couplings")
    return Learning(float(np.mean(errors)), float(np.std(errors, ddof=1) / np.sqrt(len(errors))), fits, failed)
