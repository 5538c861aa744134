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

Pairs are swept for several members of the family in one read of the tables. In the terms of `members`, with u over x, v over y,

    u[x] <- sum_y k (A into_v + added_u B scale_v) / sum_y k B out_v,        k[x, y] = 1 / (scale_u[x] + scale_v[y]),

and v the same, with A and B exchanged. On a CPU pair follows pair, and the members of one share the exponentials of a tile. On
a GPU, which is bound by memory, all rows of all pairs are one launch for u and one for v: each has its own two reads, and
those of a tile by the members of its pair follow each other, while it is still near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import e, log2

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.rules import triton_serves
from unmask.joints.solver.members import LOWEST, REACH, Members, Site
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


def sweep_pair(members: Members, v: Site, u: Site) -> Float[Tensor, "m n"]:
    """New u from v and old u, then a new v from them; a row of the answer is log v, then log u, over the sites' e^c."""
    if triton_serves(*members.blocks):
        return _by_triton(members, v, u)
    parts = members.by_block()
    return torch.cat([_by_tiles(members.blocks[block], v.rows(rows), u.rows(rows)) for block, rows in parts])


def _by_triton(members: Members, v: Site, u: Site) -> Tensor:
    from unmask.joints.triton.pair_flows import column_flows, row_flows

    a, b = members.stacks
    u = u.moved(log_ratio(row_flows(a, b, u, v)).clamp_min(-REACH[torch.float32]))
    return torch.cat([log_ratio(column_flows(a, b, u, v)), u.near], 1)


def log_ratio(flows: Float[Tensor, "2 m n"]) -> Float[Tensor, "m n"]:
    """The logarithm of what flows in over what flows out."""
    log_flows = flows.log()
    return log_flows[0] - log_flows[1]


def _by_tiles(tables: Tables, v: Site, u: Site) -> Tensor:
    log_a, log_b = tables.log_q
    sums = [(_LinearSums if alpha == 1 else _Sums)(v, u, i, log_a.dtype) for i, alpha in enumerate(v.alpha.flatten().tolist())]
    buffers = [log_a.new_empty((0,))] * 4
    for index in tiles(tables.shape, tile_size(tables)):
        tile_a, tile_b = log_a[index], log_b[index]
        if buffers[0].shape != tile_a.shape:
            buffers = [torch.empty_like(tile_a, memory_format=torch.contiguous_format) for _ in range(4)]
        a, b, k, work = buffers
        _exp(tile_a, a)
        _exp(tile_b, b)
        for member in sums:
            member.add(index[0], a, b, k, work)
    return torch.stack([torch.cat([member.new_v(), member.new_u]) for member in sums])


class _Sums:
    """The sums of one member's sweep, tile by tile: u of its rows at once, v in the end."""

    def __init__(self, v: Site, u: Site, member: int, dtype: torch.dtype) -> None:
        self.v, self.u, self.dtype = v.member(member), u.member(member), dtype
        self.restarts = self.u.restarts
        self.scale_v, self.into_v, self.out_v = (x[0].to(dtype) for x in (self.v.scale, self.v.into, self.v.out))
        self.new_u = torch.empty_like(self.u.near[0])
        self.above, self.below, self.restarted = torch.zeros((3, len(self.into_v)), dtype=torch.float64, device=v.near.device)

    def add(self, rows: slice, a: Tensor, b: Tensor, k: Tensor, work: Tensor) -> None:
        old = self.u.part(rows)
        torch.add(old.scale[0].to(self.dtype)[:, None], self.scale_v[None, :], out=k).reciprocal_()
        above = torch.mul(a, k, out=work).mv(self.into_v).double()
        below = torch.mul(b, k, out=work).mv(self.out_v).double()
        if self.restarts:
            above += old.added[0] * work.mv(self.scale_v)
        self.new_u[rows] = above.log_() - below.log_()
        new = old.moved(self.new_u[None, rows])
        scale, into, out = (x[0].to(self.dtype) for x in (new.scale, new.into, new.out))
        torch.add(scale[:, None], self.scale_v[None, :], out=k).reciprocal_()
        self.above += torch.mul(b, k, out=work).T.mv(into).double()
        self.below += torch.mul(a, k, out=work).T.mv(out).double()
        if self.restarts:
            self.restarted += work.T.mv(scale).double()

    def new_v(self) -> Tensor:
        return (self.above + self.v.added[0] * self.restarted).log() - self.below.log()


class _LinearSums(_Sums):
    """The same with alpha = 1, where k, `scale` and `out` are constants: u = A into_v + .., v = B^T into_u + .. ."""

    def add(self, rows: slice, a: Tensor, b: Tensor, k: Tensor, work: Tensor) -> None:
        old = self.u.part(rows)
        row = (a.mv(self.into_v).double() + old.added[0] * self.v.scale[0, 0]) / self.v.out[0, 0]
        self.new_u[rows] = row.log()
        into = (self.u.keep[0] * row + old.added[0]) * self.u.scale[0, 0]
        self.above += (into.to(self.dtype) @ b).double()

    def new_v(self) -> Tensor:
        return (self.above + self.v.added[0] * self.u.scale[0, 0]).log() - self.u.out[0, 0].log()


def _exp(x: Tensor, out: Tensor) -> None:
    """e^x as 2^(x log2 e), on a CPU more than twice as fast as torch's exp; off by 2e-6 of itself at x = -20 in float32."""
    torch.mul(x, log2(e), out=out).exp2_()
