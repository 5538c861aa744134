"""Whether marginals solve the family's equations: a property of the vectors, whatever path led to them.

At a fixed point both maps that have it leave every marginal where it is: the plain step (eq. 5) and the sweep (`flow_sweep`).

    moved     the larger total variation by which either map moves a marginal
    growth    the largest log-ratio by which either map raises the marginal of one context

Total variation alone says nothing of contexts with next to no mass, which may yet be about to grow. Without restarts and with
alpha = 0 the plain step raises a marginal by minus the derivative of the objective (eq. 4) by its logarithm, however small the
marginal is: where nothing grows and nothing moves, no direction lowers the objective. A token that other tokens hardly
ever lead to has a small derivative; the sweep, which divides by the flow out, shows it in full. A marginal without mass may
shrink: it goes to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unmask.joints.faithfulness import Reading
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.marginals import Marginals, centred_rows, flat
from unmask.joints.solver.members import Members

GROWS = 1e-2
"""In nats. Marginals that have converged grow by 1e-6 to 1e-4."""
ROUNDING = {torch.float32: 2e-5, torch.float64: 1e-10}
"""Total variation that the rounding of the sums may move marginals by."""


@dataclass(frozen=True)
class Standing:
    """How far the two maps move the marginals of one member; NaN where a number is not finite."""

    moved: float
    growth: float

    @property
    def grows(self) -> bool:
        """Whether some marginal is about to grow, or is NaN."""
        return not self.growth < GROWS

    def within(self, tolerance: float, dtype: torch.dtype) -> bool:
        """Whether neither map moves anything by more than the tolerance, or raises anything."""
        return not self.grows and self.moved < max(tolerance, ROUNDING[dtype])


def standings(members: Members, marginals: Sequence[Marginals], readings: Sequence[Reading]) -> list[Standing]:
    """Of each row, from one sweep; its plain step is in the reading of its rule, which has been made.

    Without restarts the joint does not depend on the common scale of its marginals: all three are compared with a sum of one.
    """
    dtype = members.blocks[0].log_q[0].dtype
    points = torch.stack([flat(log_mu) for log_mu in marginals])
    near, c = centred_rows(points, dtype)
    at = near + c
    scale = at[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    at = torch.where(members.restart > 0, at, at - scale)
    log_z = torch.tensor([[reading.log_z] for reading in readings], dtype=at.dtype, device=at.device)
    plain = torch.stack([flat(reading.log_marginals) for reading in readings]) + torch.where(members.restart > 0, log_z, 0.0)
    moved, growth = [], []
    for after in (sweep(members, points), plain):
        parts = (after.exp() - at.exp()).abs().split(members.sizes, 1)
        moved.append(0.5 * torch.stack([part.sum(1) for part in parts]).amax(0))
        growth.append((after - at).amax(1))
    numbers = torch.stack([torch.stack(moved).amax(0), torch.stack(growth).amax(0)], 1).tolist()
    return [Standing(*row) for row in numbers]
