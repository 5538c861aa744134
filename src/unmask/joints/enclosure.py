"""Blocks of three blanks or more: which contexts hold no mass, and whether an answer is as near
to the fixed point as it says.

**Contexts without mass.** Multiply the balance of a context of site t (`unmask.joints.sweeps`)
by I_t. Without restarts it says that the flows

    K W_s q_s I_t    from the context of x at site s to that at site t, through every cell x,

into a context add up to those out of it. A cell with q_s(x) > 0 therefore leads from its
context at s to those at all other sites, and contexts from which others are reached that do not
lead back hold no mass at the fixed point. With restarts those hold mass that are reached from
contexts to which the chain gives some. A sweep would take the logarithms of the others to -inf
a little at a time, for ever. Where it does not converge and alpha > 0, so that they count for
nothing, they are set to LOWEST at once.

**Nearness.** What one step moves says nothing of a direction along which next to nothing moves
in any step: classes of fillings that nearly deterministic conditionals hardly ever leave. With
F = in - m out, the derivatives of the balance by the logarithms of all marginals are -M, at the
fixed point

    M = diag(d) - G,    G[context of s, context of t] = K ( alpha own_t q_t + beta mu own_t / m_t )
            through each cell,

where own_t = (1 - lambda) m_t^alpha, and d is the sum of a row of G and of what restarts add to
it: all sums of positive terms. M is an M-matrix: its inverse has no negative entry. So Newton's
method with M moves along every direction, however slow, and the solution w of M w = in (margin
+ excess) leads to two ends z - w and z + w between which the fixed point lies. Both are checked
by their balance (`unmask.joints.arnold_gokhale.distance_bound`). The check, not M, is what
makes the bound hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.joints.members import LOWEST, Members, shaped

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

DENSE = 1600  # Marginals of a block up to which M is made: 20 MB in float64
NEWTON_STEPS = 60
LONGEST = 3.0  # Of a Newton step, in nats
STANDS = (
    1e-7  # Total variation from which on a step that is no shorter than the one before is rounding
)
STILL = 1e-13  # Total variation of a step at which the iteration ends: what is left is rounding


def _numbers(shape: Sequence[int]) -> Tensor:
    """The number of the context of each cell at each site, in the order of `flat`; shape
    (sites, cells).
    """
    numbers, first = [], 0
    for site in range(len(shape)):
        of_contexts = [1 if s == site else n for s, n in enumerate(shape)]
        count = int(np.prod(of_contexts))
        number = torch.arange(first, first + count).reshape(of_contexts).expand(tuple(shape))
        numbers.append(number.flatten())
        first += count
    return torch.stack(numbers)


def without_mass(
    log_q: Sequence[Tensor], log_chain: Float[Tensor, " n"] | None
) -> Bool[Tensor, " n"] | None:
    """The contexts that hold no mass at the fixed point; None if no cell is zero.

    `log_chain`: log c_t, where there are restarts.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    positive = torch.stack([q.flatten() > -torch.inf for q in log_q]).cpu().numpy()
    if positive.all():
        return None
    numbers = _numbers(log_q[0].shape).numpy()
    count, cells = numbers.max() + 1, positive.shape[1]
    source = count + cells  # leads to all contexts that the chain gives mass

    def links(begin: np.ndarray, end: np.ndarray) -> csr_matrix:
        return coo_matrix(
            (np.ones(len(begin), dtype=np.int8), (begin, end)), shape=(source + 1, source + 1)
        ).tocsr()

    of_cells = np.broadcast_to(np.arange(count, source), numbers.shape)
    begin, end = [numbers[positive], of_cells.ravel()], [of_cells[positive], numbers.ravel()]
    holds = np.zeros(source + 1, dtype=bool)
    if log_chain is not None:
        given = np.flatnonzero((log_chain > -torch.inf).cpu().numpy())
        graph = links(
            np.concatenate([*begin, np.full(len(given), source)]), np.concatenate([*end, given])
        )
        holds[breadth_first_order(graph, source, return_predecessors=False)] = True
    else:
        graph = links(np.concatenate(begin), np.concatenate(end))
        classes, class_of = connected_components(graph, connection="strong")
        closed = np.ones(classes, dtype=bool)
        leaving = graph.tocoo()
        ends_elsewhere = class_of[leaving.row] != class_of[leaving.col]
        closed[class_of[leaving.row[ends_elsewhere]]] = False
        holds = closed[class_of]
        reached = np.zeros(count, dtype=bool)
        reached[numbers[:, positive.any(0)].ravel()] = True
        holds[:count] &= reached  # a context that no cell leads to is a class of its own
    return torch.from_numpy(~holds[:count]).to(log_q[0].device)


class Balance:
    """F, what flows in, and M of one member of a block, at a point, over the contexts that hold
    mass; all in float64.
    """

    def __init__(self, members: Members) -> None:
        (self.tables,), self.members = members.blocks, members
        self.numbers = _numbers(self.tables.shape).to(members.alpha.device)
        self.q = [log_q.double().exp() for log_q in self.tables.log_q]
        dead = members.dead
        every = torch.arange(sum(members.sizes), device=members.alpha.device)
        self.kept = every if dead is None else every[~dead[0]]

    def at(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """F, in, M at the log marginals z; for the kept contexts."""
        of_members, _ = self.members.sites_at(z[None], torch.float64)
        sites = shaped(self.tables, [site.member(0) for site in of_members])
        shape = self.tables.shape
        alpha, keep, kappa = (float(getattr(sites[0], name)) for name in ("alpha", "keep", "kappa"))
        weighted = [site.log_weight.exp() * q for site, q in zip(sites, self.q, strict=True)]
        inverse = [site.log_inverse.exp().expand(shape) for site in sites]
        k = sum(inverse, torch.zeros((), dtype=torch.float64)).reciprocal()
        mu = k * sum(weighted)
        added = sum(site.added * q for site, q in zip(sites, self.q, strict=True))
        slack_of_cells = k * (alpha * added + (1 - alpha) * len(sites) * kappa * mu)
        n = sum(self.members.sizes)
        matrix = torch.zeros(n, n, dtype=torch.float64, device=z.device)
        flat_in, flat_out, slack = [], [], []
        for t, (site, q) in enumerate(zip(sites, self.q, strict=True)):
            others = [s for s in range(len(sites)) if s != t]
            flowing = sum(weighted[s] for s in others) + site.added * q
            against = sum(inverse[s] for s in others) + kappa
            flat_in.append((k * flowing).sum(t).flatten())
            flat_out.append((site.near.exp() * (k * q * against).sum(t, keepdim=True)).flatten())
            slack.append(slack_of_cells.sum(t).flatten())
            own_over_m = keep * ((alpha - 1) * site.near).exp()
            by_site = (k * (alpha * site.own_weight * q + (1 - alpha) * mu * own_over_m)).flatten()
            for s in others:
                matrix.index_put_((self.numbers[s], self.numbers[t]), -by_site, accumulate=True)
        into, out = torch.cat(flat_in)[self.kept], torch.cat(flat_out)[self.kept]
        matrix = matrix[self.kept][:, self.kept]
        diagonal = torch.cat(slack)[self.kept] - matrix.sum(1)
        matrix.diagonal().copy_(diagonal)
        return into - out, into, matrix

    def solve(self, matrix: Tensor, right: Tensor, z: Tensor) -> Tensor:
        """w with M w = right, as a vector over all contexts. Without restarts the scale of the
        largest marginal is held.
        """
        rows = torch.arange(len(self.kept), device=z.device)
        if not float(self.members.restart[0]):
            rows = rows[rows != z[self.kept].argmax()]
        scale = matrix.diagonal()[rows]
        solved, _ = torch.linalg.solve_ex(
            matrix[rows][:, rows] / scale[:, None], (right[rows] / scale)[:, None]
        )
        w = torch.zeros_like(z)
        w[self.kept[rows]] = solved[:, 0]
        return w

    def newton(self, z: Tensor) -> Tensor:
        """The fixed point from z, as near as float64 shows it; where steps fail, the last point
        that was finite.
        """
        total = before = torch.inf
        for _ in range(NEWTON_STEPS):
            f, _, matrix = self.at(z)
            step = self.solve(matrix, f, z)
            if not bool(step.isfinite().all()):
                break
            step = step * (LONGEST / step.abs().amax().clamp_min(LONGEST))
            after = (z + step).clamp_min(LOWEST)
            parts = (after.exp() - z.exp()).abs().split(self.members.sizes)
            total, before = max(0.5 * float(part.sum()) for part in parts), total
            small = float(step.abs().amax()) < 1.0
            z = after
            if small and (total < STILL or (before < STANDS and total >= before)):
                break
        return z

    def away(self, z: Tensor, margin: float) -> Tensor:
        """w: how far from z, in nats, ends must lie that are out of balance by the margin in
        every context.
        """
        f, into, matrix = self.at(z)
        return self.solve(matrix, f.abs() + margin * into, z).clamp_min(0)


def dense(members: Members) -> bool:
    """Whether the marginals are few enough for M."""
    return sum(members.sizes) <= DENSE
