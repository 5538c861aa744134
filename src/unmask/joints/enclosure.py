"""Blocks of three blanks or more: how near a point is to the fixed point.

How far one step moves says nothing of a slow direction, along which next to nothing moves in any
step. There is one where nearly deterministic conditionals hardly ever leave a class of fillings.

With K, W_s, I_s and mu as in `unmask.joints.sweeps` and beta = 1 - alpha, let F = in - m out be the
balance there. At the fixed point its derivatives by the logarithms of all marginals are -M:

    M  =  diag(d) - G,

    G[context of s, context of t]  =  sum_x K ( alpha own_t q_t + beta mu own_t / m_t ),    s != t,

    d[context of s]  =  sum of the row of G + sum_x K ( alpha sum_t added_t q_t + beta k kappa mu ).

The sums over x are over the cells that lie in the contexts named on the left. k is the number of
sites, own_t = (1 - lambda) m_t^alpha, and added_t and kappa are what restarts add to W_t and to I_t
(`unmask.joints.members`). All terms are positive.

M is an M-matrix: its inverse has no negative entry. So Newton's method with M moves along every
direction, however slow. The solution w of M w = |F| + margin * in leads to two ends z - w and
z + w, between which the fixed point lies. Both are checked by their balance
(`unmask.joints.distance_bound`). The check, not M, is what makes the bound hold.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.members import LOWEST, Members, shaped
from unmask.joints.without_mass import context_numbers
from unmask.tables.unary import Tables

DENSE = 1600  # Marginals of a block up to which M is made: 20 MB in float64
NEWTON_STEPS = 60
LONGEST = 3.0  # Nats that a Newton step may move a marginal
SMALL = 1.0
"""Nats. The iteration does not end with a step that moves some marginal further. A marginal with
next to no mass may move so far while the total variation is small.
"""
STANDS = 1e-7
"""Total variation. A step below it that is no shorter than the one before is rounding."""
STILL = 1e-13
"""Total variation of a step at which the iteration ends: what is left is rounding."""


class BalanceAt(NamedTuple):
    """The balance at a point, over the contexts that hold mass.

    net_flow  F = in - m out
    into      in
    matrix    M
    """

    net_flow: Float[Tensor, " kept"]
    into: Float[Tensor, " kept"]
    matrix: Float[Tensor, "kept kept"]


class Balance:
    """The balance of one member of a block; all in float64.

    kept     the numbers of the contexts that hold mass
    """

    def __init__(self, members: Members) -> None:
        (tables,) = members.blocks
        self.tables: Tables = tables
        self.members = members
        device = members.alpha.device
        self.context_numbers: Tensor = context_numbers(self.tables.shape).to(device)
        self.q: list[Tensor] = [log_q.double().exp() for log_q in self.tables.log_q]
        self.contexts: int = sum(members.sizes)
        every = torch.arange(self.contexts, device=device)
        if members.dead is None:
            self.kept: Tensor = every
        else:
            holds_mass = ~members.dead[0]
            self.kept = every[holds_mass]

    def at(self, z: Float[Tensor, " n"]) -> BalanceAt:
        """The balance at the log marginals z."""
        of_members, _ = self.members.sites_at(z[None], torch.float64)
        sites = shaped(self.tables, [site.member(0) for site in of_members])
        alpha = float(sites[0].alpha)
        keep = float(sites[0].keep)  # 1 - lambda
        kappa = float(sites[0].kappa)
        # Over the cells x, with site s at place s: W_s q_s, I_s, K and mu
        weighted = [site.log_weight.exp() * q for site, q in zip(sites, self.q, strict=True)]
        inverse = [site.log_inverse.exp().expand(self.tables.shape) for site in sites]
        k = sum(inverse, torch.zeros((), dtype=torch.float64)).reciprocal()
        mu = k * sum(weighted)
        # The terms of the second sum in d, cell by cell
        added = sum(site.added * q for site, q in zip(sites, self.q, strict=True))
        restarts_of_cells = k * (alpha * added + (1 - alpha) * len(sites) * kappa * mu)

        matrix = torch.zeros(self.contexts, self.contexts, dtype=torch.float64, device=z.device)
        into_of_sites = []
        out_of_sites = []
        restarts_of_sites = []
        for t, (site, q) in enumerate(zip(sites, self.q, strict=True)):
            others = [s for s in range(len(sites)) if s != t]
            # `flowing` and `against` are the factors of both sides in the head of `sweeps`.
            flowing = sum(weighted[s] for s in others) + site.added * q
            against = sum(inverse[s] for s in others) + kappa
            into_of_sites.append((k * flowing).sum(t).flatten())
            out = site.log_m.exp() * (k * q * against).sum(t, keepdim=True)
            out_of_sites.append(out.flatten())
            restarts_of_sites.append(restarts_of_cells.sum(t).flatten())
            own_over_m = keep * ((alpha - 1) * site.log_m).exp()
            # What a cell adds to G, in the columns of this site's contexts
            g = (k * (alpha * site.own_weight * q + (1 - alpha) * mu * own_over_m)).flatten()
            columns = self.context_numbers[t]
            for s in others:
                rows = self.context_numbers[s]
                matrix.index_put_((rows, columns), -g, accumulate=True)

        into = torch.cat(into_of_sites)[self.kept]
        out_of_kept = torch.cat(out_of_sites)[self.kept]
        matrix = matrix[self.kept][:, self.kept]  # -G so far
        diagonal = torch.cat(restarts_of_sites)[self.kept] - matrix.sum(1)
        matrix.diagonal().copy_(diagonal)
        return BalanceAt(net_flow=into - out_of_kept, into=into, matrix=matrix)

    def solve(
        self, matrix: Float[Tensor, "kept kept"], right: Float[Tensor, " kept"], z: Tensor
    ) -> Float[Tensor, " n"]:
        """w with M w = right, over all contexts; 0 in those without mass.

        Without restarts M is singular, since a common factor of all marginals is free: w is 0 at
        the largest marginal of z.
        """
        rows = torch.arange(len(self.kept), device=z.device)
        has_restarts = float(self.members.restart[0]) > 0
        if not has_restarts:
            largest = z[self.kept].argmax()
            rows = rows[rows != largest]
        scale = matrix.diagonal()[rows]
        scaled_matrix = matrix[rows][:, rows] / scale[:, None]
        scaled_right = (right[rows] / scale)[:, None]
        # `solve` would raise for a singular matrix; callers look whether w is finite.
        solved, _ = torch.linalg.solve_ex(scaled_matrix, scaled_right)
        w = torch.zeros_like(z)
        w[self.kept[rows]] = solved[:, 0]
        return w

    def newton(self, z: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The fixed point from z, as near as float64 shows it.

        If a step fails, the last point that was finite.
        """
        moved_before = torch.inf
        for _ in range(NEWTON_STEPS):
            balance = self.at(z)
            step = self.solve(balance.matrix, balance.net_flow, z)
            if not bool(step.isfinite().all()):
                break
            step = step * (LONGEST / step.abs().amax().clamp_min(LONGEST))
            after = (z + step).clamp_min(LOWEST)
            changes = (after.exp() - z.exp()).abs().split(self.members.sizes)
            # The largest total variation of any site
            moved = max(0.5 * float(of_site.sum()) for of_site in changes)
            z = after
            is_small = float(step.abs().amax()) < SMALL
            is_rounding = moved < STILL or (moved_before < STANDS and moved >= moved_before)
            if is_small and is_rounding:
                break
            moved_before = moved
        return z

    def away(self, z: Float[Tensor, " n"], margin: float) -> Float[Tensor, " n"]:
        """w, in nats, for ends z - w and z + w that are out of balance by the margin everywhere.

        The margin is a share of what flows into a context.
        """
        balance = self.at(z)
        lack = balance.net_flow.abs() + margin * balance.into
        return self.solve(balance.matrix, lack, z).clamp_min(0)


def dense(members: Members) -> bool:
    """Whether the marginals are few enough for M, which is a dense matrix."""
    return sum(members.sizes) <= DENSE
