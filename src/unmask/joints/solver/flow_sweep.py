"""One sweep towards the family's fixed point by balancing flows: far fewer reads of the tables than eq. 5.

Write m_t = mu_{-t}, and mu = K sum_s W_s q_s with K(x) = 1 / sum_s I_s (see `members`). That mu has the marginals m_t says,
after m_t = sum_{x_t} q_t m_t is taken from both sides, that for every site and context

    sum_{x_t} K ( sum_{s != t} W_s q_s + lambda k c_t q_t )  =  m_t sum_{x_t} K q_t ( sum_{s != t} I_s + lambda ) :

what flows in equals what flows out. All terms are positive, so nothing is lost to cancellation, and dividing by the sum behind
m_t moves a marginal at once where eq. 5 creeps. Without restarts and for a pair this reads

    u[x] <- sum_y A v k / sum_y B k,    v[y] <- sum_x B u k / sum_x A k,    k[x, y] = 1 / (u[x]^beta + v[y]^beta).

With alpha = 0 eq. 5 is then Zermelo's iteration for a Bradley-Terry model of rows against columns (played C = A + B times;
strengths 1/u, 1/v), and this one is Newman's; with alpha = 1 it is u = A v, v = B^T u. A tile of the first axis holds
whole lines of every site but the first, so within one read the marginals m_1.. are renewed and then used for m_0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.solver.marginals import LOWEST
from unmask.joints.solver.members import Members, Site
from unmask.joints.solver.pair_sweep import sweep_pair
from unmask.joints.tiles import at, contexts, tile_size, tiles
from unmask.tables.unary import Tables


def sweep(members: Members, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """New log marginals of every member: m_1.., then a new m_0 from them.

    Without restarts the fixed point is known up to one factor, common to all marginals: the sum of m_0 is made one. A
    marginal whose two flows both underflow keeps its value.
    """
    first = members.blocks[0]
    sites, c = members.at(points, first.log_q[0].dtype)
    if first.sites == 2:
        swept = sweep_pair(members, *sites)
    else:
        rows = enumerate(members.owner)
        swept = torch.stack([sweep_sites(members.blocks[owner], [site.member(i) for site in sites]) for i, owner in rows])
    near = torch.cat([site.near.reshape(len(points), -1) for site in sites], 1)
    swept = torch.where(swept.isnan(), near, swept)
    log_sum = swept[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    return torch.where(members.restart > 0, swept + c, swept - log_sum).clamp_min(LOWEST)


def sweep_sites(tables: Tables, sites: Sequence[Site]) -> Float[Tensor, " n"]:
    """The sweep of any number of sites for one member, over the sites' e^c."""
    shapes = [contexts(tables, t).shape for t in range(tables.sites)]
    near = [site.near.reshape(shape).clone() for site, shape in zip(sites, shapes, strict=True)]
    added = [site.added.reshape(shape) for site, shape in zip(sites, shapes, strict=True)]
    above, below = contexts(tables, 0), contexts(tables, 0)
    for index in tiles(tables.shape, tile_size(tables)):
        q = [at(log_q, index).exp() for log_q in tables.log_q]
        here = [replace(site, near=at(m, index), added=at(r, index)) for site, m, r in zip(sites, near, added, strict=True)]
        for t in range(1, tables.sites):
            up, down = _flows(q, here, t)
            here[t] = here[t].moved(up.double().log() - down.double().log())
            at(near[t], index).copy_(here[t].near)
        up, down = _flows(q, here, 0)
        above += up
        below += down
    near[0] = above.log() - below.log()
    return torch.cat([m.flatten() for m in near])


def _flows(q: Sequence[Tensor], sites: Sequence[Site], t: int) -> tuple[Tensor, Tensor]:
    """The two sums over x_t whose ratio is the new m_t."""
    dtype, others = q[0].dtype, [s for s in range(len(q)) if s != t]
    incoming = q[t] * sites[t].added.to(dtype)
    against = sites[t].kappa.reshape(()).to(dtype)
    for s in others:
        incoming = incoming + q[s] * sites[s].log_weight.exp().to(dtype)
        against = against + sites[s].log_inverse.exp().to(dtype)
    k = (against + (sites[t].log_inverse.exp() - sites[t].kappa).to(dtype)).reciprocal_()
    return (incoming * k).sum(t, keepdim=True), (q[t] * against * k).sum(t, keepdim=True)
