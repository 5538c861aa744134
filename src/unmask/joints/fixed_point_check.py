"""A check of marginals that is independent of the path that led to them.

Two maps have the marginals of a member of the near-compatible family as their fixed point: the
plain step (eq. 5, `unmask.joints.family_rule`) and the sweep (`unmask.joints.sweeps`). Neither
may move a marginal:

    moved     the larger total variation by which either map moves a marginal
    growth    the largest log-ratio by which either map raises the marginal of one context

Without restarts and with alpha = 0 the plain step raises a marginal by minus the derivative of the
objective (eq. 4) by its logarithm, however small the marginal is: where nothing grows and nothing
moves, no direction lowers the objective. The sweep, which divides by the flow out, shows growth in
full of a token that others hardly ever lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.members import Marginals, Members, centred_rows, flat
from unmask.joints.reading import JointReading
from unmask.joints.sweeps import sweep
from unmask.models.batching import on_device

GROWS = 1e-2  # In nats. Marginals that have converged grow by 1e-6 to 1e-4.
ROUNDING = {torch.float32: 2e-5, torch.float64: 1e-10}
"""Total variation that the rounding of the sums may move marginals by, by the tables' dtype."""


@dataclass(frozen=True)
class FixedPointCheck:
    """The distance by which the plain step and the sweep move the marginals of one member. NaN if
    one is not finite.
    """

    moved: float
    growth: float

    @property
    def grows(self) -> bool:
        """Whether some marginal is about to grow, or is NaN."""
        return not self.growth < GROWS

    def within(self, tolerance: float, dtype: torch.dtype) -> bool:
        """Whether neither map moves anything by more than the tolerance, or raises anything."""
        return not self.grows and self.moved < max(tolerance, ROUNDING[dtype])


def check_fixed_points(
    members: Members, marginals: Sequence[Marginals], readings: Sequence[JointReading]
) -> list[FixedPointCheck]:
    """The check of each row's marginals: from one sweep, and from the plain step, which is in the
    reading of the row's rule.

    Without restarts the joint does not depend on the common scale of its marginals. Then the given
    marginals, those of the sweep and those of the plain step are compared with a sum of one.
    """
    dtype = members.blocks[0].log_q[0].dtype
    points = torch.stack([flat(log_mu) for log_mu in marginals])
    near, c = centred_rows(points, dtype, members.dead)
    before = near + c  # as the tables' dtype can hold them
    log_sum = before[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    before = torch.where(members.restart > 0, before, before - log_sum)
    swept = sweep(members, points)
    stepped = _plain_steps(members, readings, like=before)
    moved = torch.stack([_moved(after, before, members) for after in (swept, stepped)]).amax(0)
    growth = torch.stack([_growth(after, before, members) for after in (swept, stepped)]).amax(0)
    checks = []
    for moved_of_row, growth_of_row in torch.stack([moved, growth], 1).tolist():
        checks.append(FixedPointCheck(moved=moved_of_row, growth=growth_of_row))
    return checks


def _plain_steps(
    members: Members, readings: Sequence[JointReading], like: Tensor
) -> Float[Tensor, "rows n"]:
    """Log marginals after the plain step.

    A reading has them normalised. Without restarts these are compared with a sum of one; with
    restarts the scale counts, and the normaliser is multiplied back.
    """
    normalised = torch.stack([flat(reading.log_marginals) for reading in readings])
    log_z = on_device([[reading.log_z] for reading in readings], like.device, like.dtype)
    return normalised + torch.where(members.restart > 0, log_z, 0.0)


def _moved(
    after: Float[Tensor, "rows n"], before: Float[Tensor, "rows n"], members: Members
) -> Float[Tensor, " rows"]:
    """The largest total variation between the marginals of a site before and after a map."""
    differences = (after.exp() - before.exp()).abs()
    of_sites = [of_site.sum(1) for of_site in differences.split(members.sizes, 1)]
    return 0.5 * torch.stack(of_sites).amax(0)


def _growth(
    after: Float[Tensor, "rows n"], before: Float[Tensor, "rows n"], members: Members
) -> Float[Tensor, " rows"]:
    """The most by which a map raises the log marginal of a context; those without mass do not
    count.
    """
    rises = after - before
    if members.dead is not None:
        rises = rises.masked_fill(members.dead, -torch.inf)
    return rises.amax(1)
