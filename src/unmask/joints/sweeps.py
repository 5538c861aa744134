"""Sweeps: maps of the marginals that balance flows. They take far fewer reads of the tables to the
fixed point than eq. 5 (`unmask.joints.constructions.arnold_gokhale`).

In the terms of `unmask.joints.members`, site t has the conditional q_t, the marginal m_t and

    W_t = (1 - lambda) m_t^alpha + lambda S c_t,        I_t = (1 - lambda) m_t^-beta + lambda,
            mu = K sum_s W_s q_s,        K(x) = 1 / sum_s I_s,

where S is the number of sites (k there). At the fixed point m_t = sum_{x_t} mu. Since
K sum_s I_s = 1, the left side is m_t sum_{x_t} K q_t sum_s I_s. The first terms of m_t q_t I_t, on
the left, and of W_t q_t, on the right, are equal. Without them, for every site and context

    sum_{x_t} K ( sum_{s != t} W_s q_s + lambda S c_t q_t )  =
            m_t sum_{x_t} K q_t ( sum_{s != t} I_s + lambda ) :

what flows in equals what flows out. All terms are positive, so nothing is lost to cancellation. A
sweep sets m_t to the ratio of the two sums, which moves a marginal at once where eq. 5 creeps.

A pair has the conditionals A = q_0 and B = q_1, tables over (x, y); v[y] is m_0 and u[x] is m_1.
Without restarts the sweep reads

    u[x] <- sum_y A v k / sum_y B k,    v[y] <- sum_x B u k / sum_x A k,
            k[x, y] = 1 / (u[x]^beta + v[y]^beta) = K / (u[x]^beta v[y]^beta).

With alpha = 0 eq. 5 is then Zermelo's iteration for a Bradley-Terry model of rows against columns
(played C = A + B times; strengths 1/u, 1/v), and this one is Newman's; with alpha = 1 it is
u = A v, v = B^T u. A tile cuts the first axis only. It holds all cells that a context of any other
site sums over, so within one read the marginals m_1.. are renewed and then used for m_0.

Pairs are swept for several members of the family in one read of the tables
(`unmask.joints.pair_flows`). On a CPU the members of a pair share the exponentials of a tile. On a
GPU all rows of all pairs are one launch for u and one for v; the reads of a tile by the members of
its pair follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import e, log2
from operator import itemgetter

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.joints.members import LOWEST, REACH, Members, Site, flat, shaped, unflat
from unmask.joints.pair_flows import PairFlows
from unmask.joints.stacks import triton_serves
from unmask.joints.tiles import Tile, at, by_threads, contexts, tiles
from unmask.tables.unary import Tables


def sweep(members: Members, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """New log marginals of every member: m_1.., then a new m_0 from them.

    Without restarts the fixed point is known up to one factor, common to all marginals: the sum
    of m_0 is made one. A marginal whose two flows both underflow keeps its value.
    """
    tables = members.blocks[0]
    sites, c = members.sites_at(points, tables.log_q[0].dtype)  # marginals over e^c
    if tables.sites == 2:
        v, u = sites
        swept = sweep_pair(members, v, u)
    else:
        swept = _sweep_rows(members, sites)
    before = torch.cat([site.log_m.reshape(len(points), -1) for site in sites], 1)
    swept = torch.where(swept.isnan(), before, swept)  # 0 / 0: both flows underflow
    if members.dead is not None:
        swept = swept.masked_fill(members.dead, -torch.inf)
    log_sum_of_m_0 = swept[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    normalized = swept - log_sum_of_m_0  # without restarts; c drops out
    new = torch.where(members.restart > 0, swept + c, normalized)
    return new.clamp_min(LOWEST)


def _sweep_rows(members: Members, sites: Sequence[Site]) -> Float[Tensor, "m n"]:
    """The sweep of three sites or more: one member after the other."""
    rows = []
    for row, block in enumerate(members.owner):
        of_member = [site.member(row) for site in sites]
        dead = None if members.dead is None else members.dead[row]
        rows.append(sweep_sites(members.blocks[block], of_member, dead))
    return torch.stack(rows)


def sweep_sites(
    tables: Tables, sites: Sequence[Site], dead: Bool[Tensor, " n"] | None = None
) -> Float[Tensor, " n"]:
    """The sweep of any number of sites for one member, over the sites' e^c.

    Marginals of `dead` contexts keep their values, except those of m_0: `sweep` overwrites all.
    """
    sites = shaped(tables, sites)
    stays = None if dead is None else unflat(dead, tables.shape)
    renewed = [site.log_m.clone() for site in sites]  # m_1.. tile by tile, m_0 after all tiles
    into_first = contexts(tables, 0)
    out_of_first = contexts(tables, 0)
    for index in tiles(tables.log_q[0]):
        q = [at(log_q, index).exp() for log_q in tables.log_q]
        in_tile = [
            replace(site, log_m=at(log_m, index), added=at(site.added, index))
            for site, log_m in zip(sites, renewed, strict=True)
        ]
        for t in range(1, tables.sites):
            into, out = _in_and_out(q, in_tile, t)
            new = into.double().log() - out.double().log()  # logarithms are in float64
            if stays is not None:
                # The power 0 of a marginal of 0 would be NaN: with alpha 0 or 1, 0 * -inf
                new = torch.where(at(stays[t], index), in_tile[t].log_m, new)
            in_tile[t] = in_tile[t].moved(new)
            at(renewed[t], index).copy_(new)
        into, out = _in_and_out(q, in_tile, 0)
        into_first += into
        out_of_first += out
    renewed[0] = into_first.log() - out_of_first.log()
    return flat(tuple(renewed))


def imbalance(
    members: Members, points: Float[Tensor, "m n"]
) -> tuple[Float[Tensor, "m n"], list[float]]:
    """For each member of one block at its point, in float64: the log of what flows into every
    context over what flows out; and the log of the sum of all cells of mu.

    Since mu summed over x_0 is m_0 + in - out, with the flows of m_0, the cells are not summed
    again.
    """
    (tables,) = members.blocks  # one block alone
    of_members, c = members.sites_at(points, torch.float64)
    excess = []
    log_z = []
    for row, c_of_row in enumerate(c.flatten().tolist()):
        sites = shaped(tables, [site.member(row) for site in of_members])
        into, out = _sums_in_and_out(tables, sites)
        excess_of_row = []
        for t, site in enumerate(sites):
            excess_of_row.append(into[t].log() - out[t].log() - site.log_m)
        excess.append(flat(tuple(excess_of_row)))
        m_0 = sites[0].log_m.exp()
        flows_out = m_0 * out[0]
        sum_of_cells = (m_0 + into[0] - flows_out).sum()
        log_z.append(c_of_row + float(sum_of_cells.log()))
    return torch.stack(excess), log_z


def _sums_in_and_out(tables: Tables, sites: Sequence[Site]) -> tuple[list[Tensor], list[Tensor]]:
    """For each site the two sums whose ratio is its new marginal, over all tiles, in float64."""
    into = [contexts(tables, t) for t in range(tables.sites)]
    out = [contexts(tables, t) for t in range(tables.sites)]
    for index in tiles(tables.log_q[0]):
        q = [at(log_q, index).double().exp() for log_q in tables.log_q]
        in_tile = [site.over(partial(at, index=index)) for site in sites]
        for t in range(tables.sites):
            into_of_tile, out_of_tile = _in_and_out(q, in_tile, t)
            at(into[t], index).add_(into_of_tile)
            at(out[t], index).add_(out_of_tile)
    return into, out


def _in_and_out(q: Sequence[Tensor], sites: Sequence[Site], t: int) -> tuple[Tensor, Tensor]:
    """The two sums over x_t whose ratio is the new m_t: what flows in, and what flows out over
    the old m_t.

    in = sum K (sum_{s != t} W_s q_s + added q_t),   out = sum K q_t (sum_{s != t} I_s + kappa)

    `added` and `kappa` are the second terms of the site's own W_t and I_t.
    """
    own = sites[t]
    dtype = q[0].dtype
    incoming = q[t] * own.added.to(dtype)
    against = own.kappa.reshape(()).to(dtype)
    for s, other in enumerate(sites):
        if s != t:
            incoming = incoming + q[s] * other.log_weight.exp().to(dtype)
            against = against + other.log_inverse.exp().to(dtype)
    own_first_term = own.log_inverse.exp() - own.kappa  # kappa is in `against`
    big_k = (against + own_first_term.to(dtype)).reciprocal_()
    into = (incoming * big_k).sum(t, keepdim=True)
    out = (q[t] * against * big_k).sum(t, keepdim=True)
    return into, out


def sweep_pair(members: Members, v: Site, u: Site) -> Float[Tensor, "m n"]:
    """New u from v and old u, then a new v from them; a row of the answer is log v, then log u,
    over the sites' e^c.
    """
    if triton_serves(*members.blocks):
        return _sweep_pair_on_gpu(members, v, u)
    rows = []
    for block, of_block in members.by_block():
        log_q = members.blocks[block].log_q
        v_of_block = v.select(of_block)
        sweep_part = partial(_sweep_some_rows, log_q, v_of_block, u.select(of_block))
        log_u_of_parts = []
        column_sums_of_parts = []
        for log_u, column_sums in by_threads(log_q[0], sweep_part):
            log_u_of_parts.append(log_u)
            column_sums_of_parts.append(column_sums)
        into, out, back = torch.stack(column_sums_of_parts).sum(0)  # see `PairFlows`
        log_v = (into + v_of_block.added * back).log() - out.log()
        rows.append(torch.cat([log_v, *log_u_of_parts], 1))
    return torch.cat(rows)


def _sweep_pair_on_gpu(members: Members, v: Site, u: Site) -> Float[Tensor, "m n"]:
    """The same, in one launch for u and one for v."""
    from unmask.joints.triton_programs import column_flows, row_flows

    a, b = members.stacks
    log_in, log_out = row_flows(a, b, u, v).log()
    log_u = (log_in - log_out).clamp_min(-REACH[torch.float32])  # its powers are positive numbers
    u = u.moved(log_u)
    log_in, log_out = column_flows(a, b, u, v).log()
    log_v = log_in - log_out
    return torch.cat([log_v, log_u], 1)


def _sweep_some_rows(
    log_q: Sequence[Tensor], v: Site, u: Site, part: Sequence[Tile]
) -> tuple[Float[Tensor, "m x"], Float[Tensor, "3 m y"]]:
    """The new log u of the rows of these tiles, which follow each other, and their part of the
    three sums of every column (see `PairFlows`).
    """
    log_a, log_b = log_q
    flows = PairFlows(log_a, u, v, part)
    column_sums = v.log_m.new_zeros((3, *v.log_m.shape))
    room_a = torch.empty_like(flows.work)  # for the exponentials of the largest tile
    room_b = torch.empty_like(flows.work)
    first_row = part[0][0].start
    end_row = part[-1][0].stop
    log_u = u.log_m[:, first_row:end_row].clone()
    for index in part:
        rows = index[0]
        height = rows.stop - rows.start
        a = _exp(log_a[index], room_a[:height])
        b = _exp(log_b[index], room_b[:height])
        into, out, back = flows.of_rows(a, b, rows)
        old_u = u.over(itemgetter((slice(None), rows)))  # [:, rows]
        new = (into + old_u.added * back).log_().sub_(out.log_())
        log_u[:, rows.start - first_row : rows.stop - first_row] = new
        new_u = old_u.moved(new.clamp_min(-REACH[a.dtype]))  # its powers are positive numbers
        column_sums += flows.of_columns(a, b, new_u)
    return log_u, column_sums


def _exp(log_q: Tensor, out: Tensor) -> Tensor:
    """e^x as 2^(x log2 e), in `out`.

    On a CPU this is more than twice as fast as torch's exp; off by 2e-6 of itself at x = -20 in
    float32.
    """
    return torch.mul(log_q, log2(e), out=out).exp2_()
