"""Small models whose numbers are known: the stutter, and bits that depend on each other."""

from __future__ import annotations

import numpy as np

from unmask.studies.lab.model import LabModel, Space, Vector, table_model


def stutter_pair(weight: float = 0.5) -> LabModel:
    """p(s, w) = weight, p(w, t) = 1 - weight, over the words (s, w, t) in both positions."""
    joint = np.zeros((3, 3))
    joint[0, 1] = weight
    joint[1, 2] = 1 - weight
    return table_model(joint, "stutter pair")


def slots_model(slots: int, noise: float = 0.0) -> LabModel:
    """One w among fillers, in any of `slots` equally likely places (value 1: w), mixed with
    `noise` of the uniform law.
    """
    space = Space((2,) * slots)
    has_one = (space.values.sum(1) == 1).astype(float)
    p = (1 - noise) * has_one / has_one.sum() + noise / space.states
    return table_model(p.reshape(space.sizes), f"{slots} slots")


def outcomes(model: LabModel, law: Vector) -> dict[str, float]:
    """Probabilities that w is missing, occurs once (right), or is repeated."""
    count = model.space.values.sum(1)
    missing = law[count == 0].sum()
    once = law[count == 1].sum()
    repeated = law[count > 1].sum()
    return {"missing": float(missing), "once": float(once), "repeated": float(repeated)}


def even_parity() -> LabModel:
    """Three fair bits whose sum is even: any two are independent, and TC = ln 2."""
    a, b, c = np.indices((2, 2, 2))
    is_even = (a + b + c) % 2 == 0
    return table_model(is_even / 4, "even parity")


def agreement() -> LabModel:
    """Three fair bits that are equal: any two are independent given the third, and TC = 2 ln 2."""
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[1, 1, 1] = 0.5
    return table_model(joint, "agreement")
