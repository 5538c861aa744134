"""Masked losses of a family on data, with gradient and curvature.

Data are counts n[K, x]: how often state x was seen with mask K. For an exponential family with features F,

    block        -sum n[K,x] log p_theta(x_K | x_{-K}, K)            gradient  sum n (E_K F - F)
    factorised   -sum n[K,x] sum_{i in K} log p_theta(x_i | x_{-K})  gradient  sum n sum_i (E_K F - E[F | x_i, x_{-K}])

The block loss is convex and its curvature is its Hessian; for the factorised loss the curvature is the expected one
(Fisher scoring), which is positive semidefinite and equals the Hessian in expectation at the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, Num

from unmask.lab.mask_law import MaskLaw
from unmask.lab.model import LabModel, Theta
from unmask.lab.space import Vector

Evaluation = tuple[float, Theta, Float[np.ndarray, "d d"]]
"""Loss per sample, gradient, curvature."""


@dataclass(frozen=True)
class Groups:
    """States grouped by context: `members` (contexts, width) and `context` (S,), the context of each state."""

    members: Int[np.ndarray, "contexts width"]
    context: Int[np.ndarray, " S"]


class MaskedLoss:
    """The losses of `family` under `law`; data come in as counts n[K, x], (masks, S)."""

    def __init__(self, family: LabModel, law: MaskLaw) -> None:
        self.family, self.law = family, law
        with np.errstate(divide="ignore"):
            self.log_given = np.log(law.given)

    @cached_property
    def groups(self) -> list[Groups]:
        """The grouping of each mask."""
        return [_groups(self.family, mask) for mask in self.law.masks]

    @cached_property
    def single_groups(self) -> list[list[Groups]]:
        """For every mask, the groupings by (x_i, x_{-K}) for i in K."""
        return [[_groups(self.family, tuple(j for j in mask if j != i)) for i in mask] for mask in self.law.masks]

    def block(self, theta: Theta, counts: Num[np.ndarray, "K S"]) -> Evaluation:
        """The block loss at theta."""
        features, log_weight = self.family.features, self.family.log_p_at(theta)
        loss, gradient = 0.0, np.zeros(features.shape[1])
        curvature = np.zeros((features.shape[1],) * 2)
        for groups, seen, log_given in zip(self.groups, counts, self.log_given, strict=True):
            log_joint = log_weight + log_given
            cell = log_joint[groups.members]
            peak = cell.max(1, keepdims=True)
            weight = np.exp(cell - peak)
            total = weight.sum(1, keepdims=True)
            weight /= total
            inside = features[groups.members]
            mean = np.einsum("cw,cwd->cd", weight, inside)
            contexts = seen[groups.members].sum(1)
            loss -= float(seen @ np.where(seen > 0, log_joint, 0.0) - contexts @ (peak + np.log(total))[:, 0])
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
        for groups, singles, seen in zip(self.groups, self.single_groups, counts, strict=True):
            mass, mean = _means(groups, p, weighted)
            contexts = seen[groups.members].sum(1)
            for single in singles:
                part, part_mean = _means(single, p, weighted)
                seen_part = seen[single.members].sum(1)
                above = groups.context[single.members[:, 0]]
                chance = part / mass[above]
                deviation = part_mean - mean[above]
                loss -= float(seen_part @ np.log(chance))
                gradient -= seen_part @ deviation
                curvature += (deviation * (contexts[above] * chance)[:, None]).T @ deviation
        n = float(counts.sum())
        return loss / n, gradient / n, curvature / n


def _groups(family: LabModel, mask: tuple[int, ...]) -> Groups:
    members = family.space.siblings(mask)
    context = np.empty(family.space.states, dtype=np.intp)
    context[members] = np.arange(len(members))[:, None]
    return Groups(members, context)


def _means(
    groups: Groups, p: Vector, weighted: Float[np.ndarray, "S d"]
) -> tuple[Float[np.ndarray, " contexts"], Float[np.ndarray, "contexts d"]]:
    mass = p[groups.members].sum(1)
    return mass, weighted[groups.members].sum(1) / mass[:, None]
