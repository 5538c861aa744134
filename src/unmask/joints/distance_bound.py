"""How far the marginals that were found may be from the fixed point of the near-compatible family.

Let f be the step of eq. 5 before it is normalised. Every cell rises with every marginal, and
f(t m) <= t f(m) for t >= 1, with equality without restarts. So

    l < f(l) and f(U) < U in every context   =>   l <= m <= U  for every fixed point m > 0:

were t = max m/U > 1, the context that attains it would have m = f(m) <= t f(U) < t U = m; the same
for l. Without restarts the fixed point is a ray: one context has m = 1 in all three, and is left
out of the two conditions. Cells rise, so of two joints with marginals in [l, U], with the sums Z(l)
and Z(U) of all cells at the two ends,

    total variation  <=  1 - Z(l) / Z(U).

f(U) < U says that less flows in than out. The two ends are sought from the marginals in two ways:

1. By trial: a context that fails moves away by what it lacks and a margin.
2. By derivatives (`unmask.joints.enclosure`), of three blanks or more, where trial leads nowhere:
   all contexts move as the derivatives say. This finds ends where next to nothing moves in a step,
   but only near the fixed point.

What is checked is a property of the ends, whatever path led to them.
"""

from __future__ import annotations

from math import exp, isfinite

import torch
from torch import Tensor

from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.enclosure import Balance, dense
from unmask.joints.members import Marginals, Members, flat
from unmask.joints.sweeps import imbalance
from unmask.tables.unary import Tables

ROUNDING = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Of sums over a table: those of its own conditionals, and of the probabilities that it leads
to.
"""
EXACT = 1e-13
"""Rounding of sums of positive terms in float64."""
MARGIN = 4e-13
"""The lack of balance, of such sums, that ends are sought with."""
DOUBLINGS = 6
"""How often the distance of ends is doubled."""
FARTHEST = 1.0
"""Nats beyond which ends bound nothing of use."""
TRIES = 50
"""Reads of the tables for a bound by trial."""
GROWS_BY = 1.25
"""The factor by which the margin that ends are sought with grows from one trial to the next."""


def distance_bound(tables: Tables, member: Member, log_mu: Marginals) -> float | None:
    """The most by which the probability of any event differs between the rule at `log_mu` and at
    the fixed point; None: unknown.
    """
    rows = Members.of([tables], [member, member], lowered=True)  # one row for each end
    z = flat(log_mu)
    bound = bound_by_trial(rows, z, ROUNDING[tables.log_q[0].dtype])
    if bound is None and tables.sites > 2 and dense(rows):
        bound = bound_by_derivatives(rows, z)
    return bound


def bound_by_trial(rows: Members, z: Tensor, rounding: float) -> float | None:
    """The bound, with ends sought by moving the contexts that fail."""
    away = z.new_zeros(2, len(z))
    margin = 0.0
    for _ in range(TRIES):
        lack, bound = _ends(rows, z, away, rounding)
        if bool((lack <= 0).all()):
            return bound
        if margin:
            margin = GROWS_BY * margin
        else:  # the first trial shows how much lacks
            margin = max(rounding, float(lack.amax()) / TRIES)
        away = away + (lack + margin).clamp_min(0)
    return None


def bound_by_derivatives(rows: Members, z: Tensor) -> float | None:
    """The bound of a block of few contexts, with ends in the direction that the derivatives of
    the balance lead to.
    """
    away = Balance(rows.select([0])).away(z, MARGIN)
    for _ in range(DOUBLINGS):
        if not bool(away.isfinite().all()) or float(away.amax()) > FARTHEST:
            return None
        lack, bound = _ends(rows, z, away.expand(2, -1), EXACT)
        if bool((lack <= 0).all()):
            return bound
        away = 2 * away
    return None


def _ends(rows: Members, z: Tensor, away: Tensor, rounding: float) -> tuple[Tensor, float | None]:
    """What the ends U = z + away and l = z - away lack in every context, and the bound if they
    lack nothing. Contexts that do not count lack -inf.
    """
    sign = torch.tensor([[1.0], [-1.0]], dtype=z.dtype, device=z.device)
    excess, log_z = imbalance(rows, z + sign * away)
    ruled_out = excess[0] == -torch.inf
    lack = (sign * excess + rounding).masked_fill(ruled_out, -torch.inf)
    if rows.dead is not None:
        lack = lack.masked_fill(rows.dead, -torch.inf)
    if not float(rows.restart[0]):  # a ray: one context is left out
        lack[:, z.argmax()] = -torch.inf
    if not all(map(isfinite, log_z)):
        return lack, None
    log_z_of_u, log_z_of_l = log_z
    # Z(l) is at most Z(U): only rounding makes the ratio larger than 1, or ends too far away
    # for it.
    ratio = exp(min(log_z_of_l - log_z_of_u, 1.0))
    bound = 1 - ratio + rounding
    if 0 <= bound < 1:
        return lack, bound
    return lack, None
