"""Members of the near-compatible family over the tables of blocks, several side by side, and
the terms of their equations.

The fixed point consists of the marginals m_t = mu_{-t} (mu with site t summed out). With mu =
(sum_t W_t q_t) / (sum_t I_t) (see `unmask.joints.arnold_gokhale`), beta = 1 - alpha and the
chain c = sum_t c_t q_t, W_t and I_t are

    W_t = (1 - lambda) m_t^alpha + lambda k c_t,        I_t = (1 - lambda) m_t^-beta + lambda .

The marginals are divided by a common e^c (c a number here, not the chain), which puts their
powers in the middle of the range of floating-point numbers: with m_t e^-c for m_t, lambda
e^(beta c) for the lambda in I_t, called `kappa`, and lambda k c_t e^(-alpha c) for the second
term of W_t, called `added`, both equations stay as they are.

A sweep balances flows, and takes far fewer reads of the tables to the fixed point than eq. 5.
Write mu = K sum_s W_s q_s with K(x) = 1 / sum_s I_s. At the fixed point mu has the marginals
m_t. Subtract m_t = sum_{x_t} q_t m_t from both sides: for every site and context

    sum_{x_t} K ( sum_{s != t} W_s q_s + lambda k c_t q_t )  =
            m_t sum_{x_t} K q_t ( sum_{s != t} I_s + lambda ) :

what flows in equals what flows out. All terms are positive, so nothing is lost to cancellation.
A sweep sets m_t to the ratio of the two sums, which moves a marginal at once where eq. 5
creeps. Without restarts and for a pair this reads

    u[x] <- sum_y A v k / sum_y B k,    v[y] <- sum_x B u k / sum_x A k,
            k[x, y] = 1 / (u[x]^beta + v[y]^beta).

With alpha = 0 eq. 5 is then Zermelo's iteration for a Bradley-Terry model of rows against
columns (played C = A + B times; strengths 1/u, 1/v), and this one is Newman's; with alpha = 1
it is u = A v, v = B^T u. A tile of the first axis holds whole lines of every site but the
first, so within one read the marginals m_1.. are renewed and then used for m_0.

Pairs are swept for several members of the family in one read of the tables. In the terms of
`Site`, with u over x, v over y,

    u[x] <- sum_y k (A into_v + added_u B scale_v) / sum_y k B out_v,
            k[x, y] = 1 / (scale_u[x] + scale_v[y]),

and v the same, with A and B exchanged. On a CPU the members of a pair share the exponentials of
a tile. On a GPU all rows of all pairs are one launch for u and one for v; the reads of a tile
by the members of its pair follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from math import e, log, log2, prod
from operator import itemgetter, methodcaller

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.closed_forms import chain_weights
from unmask.joints.registry import Member
from unmask.joints.rules import Stack, Tile, along, at, by_threads, contexts, tiles, triton_serves
from unmask.models.batching import on_device
from unmask.tables.unary import Tables

Marginals = tuple[Tensor, ...]  # log mu_{-t} for each t in float64, with size 1 at axis t
# The logarithm that a marginal of zero is given: that of a token which the model rules out in
# every context
LOWEST = -1200.0
REACH = {torch.float32: 80.0, torch.float64: 600.0}
"""How far logarithms may lie from c, so that their powers are positive numbers."""


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint, or of the uniform distribution (the paper's start)."""
    k = tables.sites
    sites = [
        along(torch.full_like(m, -log(len(m))) if uniform else m, t, k).double()
        for t, m in enumerate(tables.log_masked)
    ]
    return tuple(
        sum((m for s, m in enumerate(sites) if s != t), contexts(tables, t)) for t in range(k)
    )


def flat(log_mu: Marginals) -> Float[Tensor, " n"]:
    """All marginals in one vector."""
    return torch.cat([m.flatten() for m in log_mu])


def unflat(vector: Float[Tensor, " n"], shape: Sequence[int]) -> Marginals:
    """The marginals in a vector, of a block of this shape."""
    parts = vector.split([prod(shape) // n for n in shape])
    return tuple(
        part.reshape([1 if s == t else n for s, n in enumerate(shape)])
        for t, part in enumerate(parts)
    )


def centred_rows(
    points: Float[Tensor, "m n"], dtype: torch.dtype, dead: Bool[Tensor, "m n"] | None = None
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    """Log marginals, those of several members in one row each, over e^c, and c, the middle of
    the range of those not `dead`.

    Of marginals that are further apart than e^160 in float32 (e^1200 in float64) the smallest
    are raised.
    """
    most = REACH[dtype]
    high = points.amax(1, keepdim=True)
    holding = points if dead is None else points.masked_fill(dead, torch.inf)
    low = torch.maximum(holding.amin(1, keepdim=True), high - 2 * most)
    c = (high + low) / 2
    return (points - c).clamp_min(-most), c


@dataclass(frozen=True)
class Site:
    """The marginal m_t of several members, one per row, and what the equations take of it; all
    in float64.

    near      log m_t, over e^c
    added     what restarts add to the weights; zero without them
    kappa     what restarts add to the denominator
    restarts  False where no member of the run restarts
    """

    near: Tensor
    added: Tensor
    alpha: Float[Tensor, "m 1"]
    keep: Float[Tensor, "m 1"]
    kappa: Float[Tensor, "m 1"]
    restarts: bool = True

    def moved(self, near: Tensor) -> Site:
        """The same site with another marginal."""
        return replace(self, near=near)

    def over(self, take: Callable[[Tensor], Tensor]) -> Site:
        """The same site with `take` applied to its tensors over contexts: some contexts, or
        another shape.
        """
        return replace(self, near=take(self.near), added=take(self.added))

    def select(self, which: slice | Tensor) -> Site:
        """The same site of some members."""
        near, added, alpha, keep, kappa = (
            x[which] for x in (self.near, self.added, self.alpha, self.keep, self.kappa)
        )
        return replace(self, near=near, added=added, alpha=alpha, keep=keep, kappa=kappa)

    def member(self, i: int) -> Site:
        """The same site of one member."""
        return replace(self.select(slice(i, i + 1)), restarts=bool(self.kappa[i] > 0))

    @cached_property
    def own_weight(self) -> Tensor:
        """(1 - lambda) m^alpha."""
        return self.keep * (self.alpha * self.near).exp()

    @cached_property
    def log_weight(self) -> Tensor:
        """log W."""
        return torch.logaddexp(self.keep.log() + self.alpha * self.near, self.added.log())

    @cached_property
    def log_inverse(self) -> Tensor:
        """log I."""
        return torch.logaddexp(self.keep.log() + (self.alpha - 1) * self.near, self.kappa.log())

    @cached_property
    def _power(self) -> Tensor:
        return ((1 - self.alpha) * self.near).exp()

    @cached_property
    def scale(self) -> Tensor:
        """1 / I, which is m^beta without restarts."""
        return self._power / (self.keep + self.kappa * self._power)

    @cached_property
    def into(self) -> Tensor:
        """W / I, which is m without restarts."""
        return (self.keep * self.near.exp() + self.added * self._power) / (
            self.keep + self.kappa * self._power
        )

    @cached_property
    def out(self) -> Tensor:
        """1 + kappa / I, which is one without restarts."""
        return 1 + self.kappa * self.scale

    @cached_property
    def elasticity(self) -> Tensor:
        """d log scale / d log m, which is beta without restarts."""
        return (1 - self.alpha) * (1 - self.kappa * self.scale)


@dataclass(frozen=True)
class Members:
    """One member of one block per row; the rows of a block follow each other.

    blocks      the tables of the blocks, all of one shape
    owner       for each row, which of them it is a member over
    log_chain   log c_t for all t, in the order of `flat`
    sizes       how many contexts each site has
    restarts    False where no member restarts
    dead        contexts that hold no mass at the fixed point (`unmask.joints.enclosure`); None
                if they are not lowered
    """

    blocks: tuple[Tables, ...]
    owner: tuple[int, ...]
    alpha: Float[Tensor, "m 1"]
    restart: Float[Tensor, "m 1"]
    log_chain: Float[Tensor, "m n"]
    sizes: tuple[int, ...]
    restarts: bool
    dead: Bool[Tensor, "m n"] | None = None

    @staticmethod
    def of(blocks: Sequence[Tables], members: Sequence[Member], lowered: bool = False) -> Members:
        """The members over each of these blocks; `lowered`: contexts that hold no mass are at
        LOWEST.
        """
        like = blocks[0].log_q[0]
        rows = [member for _ in blocks for member in members]
        alpha, restart = on_device(rows, like.device, torch.float64).split(1, 1)
        sizes = tuple(like.numel() // n for n in blocks[0].shape)
        log_chain = alpha.new_full((1, 1), -torch.inf).expand(len(rows), sum(sizes))
        if restarts := any(member.restart for member in members):
            chains = torch.stack([flat(chain_weights(tables)) for tables in blocks])
            log_chain = chains.repeat_interleave(len(members), 0)
        owner = tuple(block for block in range(len(blocks)) for _ in members)
        every = Members(tuple(blocks), owner, alpha, restart, log_chain, sizes, restarts)
        return (
            replace(every, dead=_without_mass(every)) if lowered and blocks[0].sites > 2 else every
        )

    def select(self, chosen: Sequence[int]) -> Members:
        """Some of the rows."""
        which = on_device(chosen, self.alpha.device, torch.long)
        parts = {name: getattr(self, name)[which] for name in ("alpha", "restart", "log_chain")}
        dead = None if self.dead is None else self.dead[which]
        return replace(self, owner=tuple(self.owner[i] for i in chosen), dead=dead, **parts)

    def with_dead_lowered(self, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        """The points with contexts that hold no mass at LOWEST."""
        return points if self.dead is None else points.masked_fill(self.dead, LOWEST)

    @cached_property
    def owners(self) -> Int[Tensor, " m"]:
        """The owner of each row, on the tables' device."""
        return on_device(self.owner, self.alpha.device, torch.long)

    @cached_property
    def stacks(self) -> tuple[Stack, Stack]:
        """Both tables of each row's pair."""
        first, second = (
            Stack.of([tables.log_q[t] for tables in self.blocks], self.owner) for t in range(2)
        )
        return first, second

    def by_block(self) -> Iterator[tuple[int, slice]]:
        """The blocks that still have rows, and these rows."""
        start = 0
        for block, rows in groupby(self.owner):
            count = len(list(rows))
            yield block, slice(start, start + count)
            start += count

    def sites_at(
        self, points: Float[Tensor, "m n"], dtype: torch.dtype
    ) -> tuple[list[Site], Float[Tensor, "m 1"]]:
        """The sites at log marginals `points`, for tables of `dtype`, and c."""
        near, c = centred_rows(points, dtype, self.dead)
        log_restart = self.restart.log()
        kappa = (log_restart + (1 - self.alpha) * c).exp()
        added = (log_restart + self.log_chain - self.alpha * c).exp() * len(self.sizes)
        parts = zip(near.split(self.sizes, 1), added.split(self.sizes, 1), strict=True)
        return [Site(m, r, self.alpha, 1 - self.restart, kappa, self.restarts) for m, r in parts], c


def _without_mass(members: Members) -> Bool[Tensor, "m n"] | None:
    """For each row the contexts that hold no mass; None where all do."""
    from unmask.joints.enclosure import without_mass

    found: dict[tuple[int, bool], Tensor | None] = {}
    rows = []
    for row, (owner, restart) in enumerate(
        zip(members.owner, members.restart.flatten().tolist(), strict=True)
    ):
        kind = owner, restart > 0
        if kind not in found:
            found[kind] = without_mass(
                members.blocks[owner].log_q, members.log_chain[row] if restart else None
            )
        rows.append(found[kind])
    if all(dead is None for dead in rows):
        return None
    nothing = torch.zeros_like(members.log_chain[0], dtype=torch.bool)
    return torch.stack([nothing if dead is None else dead for dead in rows])


def sweep(members: Members, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """New log marginals of every member: m_1.., then a new m_0 from them.

    Without restarts the fixed point is known up to one factor, common to all marginals: the sum
    of m_0 is made one. A marginal whose two flows both underflow keeps its value.
    """
    first = members.blocks[0]
    sites, c = members.sites_at(points, first.log_q[0].dtype)
    if first.sites == 2:
        swept = sweep_pair(members, *sites)
    else:
        rows = []
        for i, owner in enumerate(members.owner):
            dead = None if members.dead is None else members.dead[i]
            rows.append(
                sweep_sites(members.blocks[owner], [site.member(i) for site in sites], dead)
            )
        swept = torch.stack(rows)
    near = torch.cat([site.near.reshape(len(points), -1) for site in sites], 1)
    swept = torch.where(swept.isnan(), near, swept)
    if members.dead is not None:
        swept = swept.masked_fill(members.dead, -torch.inf)
    log_sum = swept[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    return torch.where(members.restart > 0, swept + c, swept - log_sum).clamp_min(LOWEST)


def sweep_sites(
    tables: Tables, sites: Sequence[Site], dead: Bool[Tensor, " n"] | None = None
) -> Float[Tensor, " n"]:
    """The sweep of any number of sites for one member, over the sites' e^c; marginals of `dead`
    contexts stay where they are.
    """
    sites = shaped(tables, sites)
    stays = None if dead is None else unflat(dead, tables.shape)
    near, above, below = (
        [site.near.clone() for site in sites],
        contexts(tables, 0),
        contexts(tables, 0),
    )
    for index in tiles(tables.log_q[0]):
        q = [at(log_q, index).exp() for log_q in tables.log_q]
        here = [
            replace(site, near=at(m, index), added=at(site.added, index))
            for site, m in zip(sites, near, strict=True)
        ]
        for t in range(1, tables.sites):
            up, down = _flows(q, here, t)
            new = up.double().log() - down.double().log()
            if stays is not None:
                new = torch.where(
                    at(stays[t], index), here[t].near, new
                )  # a marginal of 0 to the power 0 would be NaN
            here[t] = here[t].moved(new)
            at(near[t], index).copy_(here[t].near)
        up, down = _flows(q, here, 0)
        above += up
        below += down
    near[0] = above.log() - below.log()
    return torch.cat([m.flatten() for m in near])


def imbalance(
    members: Members, points: Float[Tensor, "m n"]
) -> tuple[Float[Tensor, "m n"], list[float]]:
    """For each member of one block at its point, in float64: the log of what flows into every
    context over what flows out, and the log of the sum of all cells, which is that of the m_0 +
    in - out.
    """
    (tables,), (of_members, c) = members.blocks, members.sites_at(points, torch.float64)
    excess, log_z = [], []
    for i, centre in enumerate(c.flatten().tolist()):
        sites = shaped(tables, [site.member(i) for site in of_members])
        sums = [(contexts(tables, t), contexts(tables, t)) for t in range(tables.sites)]
        for index in tiles(tables.log_q[0]):
            q = [at(log_q, index).double().exp() for log_q in tables.log_q]
            here = [site.over(partial(at, index=index)) for site in sites]
            for t, into_and_out in enumerate(sums):
                for total, part in zip(into_and_out, _flows(q, here, t), strict=True):
                    at(total, index).add_(part)
        excess.append(
            flat(
                tuple(
                    up.log() - down.log() - site.near
                    for (up, down), site in zip(sums, sites, strict=True)
                )
            )
        )
        (up, down), m = sums[0], sites[0].near.exp()
        log_z.append(centre + float((m + up - m * down).sum().log()))
    return torch.stack(excess), log_z


def shaped(tables: Tables, sites: Sequence[Site]) -> list[Site]:
    """The sites of one member, each with the shape of its contexts."""
    return [
        site.over(methodcaller("reshape", contexts(tables, t).shape))
        for t, site in enumerate(sites)
    ]


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
    """New u from v and old u, then a new v from them; a row of the answer is log v, then log u,
    over the sites' e^c.
    """
    if triton_serves(*members.blocks):
        from unmask.joints.triton_programs import column_flows, row_flows

        a, b = members.stacks
        log_flows = row_flows(a, b, u, v).log()
        u = u.moved((log_flows[0] - log_flows[1]).clamp_min(-REACH[torch.float32]))
        log_flows = column_flows(a, b, u, v).log()
        return torch.cat([log_flows[0] - log_flows[1], u.near], 1)
    rows = []
    for block, which in members.by_block():
        log_q, of_v = members.blocks[block].log_q, v.select(which)
        swept = by_threads(log_q[0], partial(_swept, log_q, of_v, u.select(which)))
        into, out, back = torch.stack([columns for _, columns in swept]).sum(0)
        log_v = (into + of_v.added * back).log() - out.log()
        rows.append(torch.cat([log_v, *(near_u for near_u, _ in swept)], 1))
    return torch.cat(rows)


def _swept(
    log_q: Sequence[Tensor], v: Site, u: Site, part: Sequence[Tile]
) -> tuple[Tensor, Tensor]:
    """The new log u of some rows, and their part of the three sums of every column."""
    flows, columns = PairFlows(log_q[0], u, v, part), v.near.new_zeros((3, *v.near.shape))
    room, first = [torch.empty_like(flows.k) for _ in range(2)], part[0][0].start
    near = u.near[:, first : part[-1][0].stop].clone()
    for index in part:
        # e^x as 2^(x log2 e) is on a CPU more than twice as fast as torch's exp; off by 2e-6 of
        # itself at x = -20 in float32.
        parts = zip(log_q, (to[: index[0].stop - index[0].start] for to in room), strict=True)
        a, b = (torch.mul(table[index], log2(e), out=to).exp2_() for table, to in parts)
        into, out, back = flows.of_rows(a, b, index[0])
        old = u.over(itemgetter((slice(None), index[0])))
        new = (into + old.added * back).log_().sub_(out.log_())
        near[:, index[0].start - first : index[0].stop - first] = new
        columns += flows.of_columns(a, b, old.moved(new.clamp_min(-REACH[a.dtype])))
    return near, columns


def row_flows(a: Tensor, b: Tensor, u: Site, v: Site) -> Float[Tensor, "2 m n"]:
    """The two sums over y for every x, in float64, for each member; the tables hold
    probabilities.
    """

    def sums(part: Sequence[Tile]) -> Tensor:
        flows = PairFlows(a, u, v, part)
        return torch.cat([flows.of_rows(a[index], b[index], index[0]) for index in part], 2)

    into, out, back = torch.cat(by_threads(a, sums), 2)
    return torch.stack([into + u.added * back, out])


def column_flows(a: Tensor, b: Tensor, u: Site, v: Site) -> Float[Tensor, "2 m n"]:
    """The two sums over x for every y."""

    def sums(part: Sequence[Tile]) -> Tensor:
        flows = PairFlows(a, u, v, part)
        parts = (
            (a[index], b[index], u.over(itemgetter((slice(None), index[0])))) for index in part
        )
        return sum((flows.of_columns(*tile).double() for tile in parts), torch.zeros(()))

    into, out, back = torch.stack(by_threads(a, sums)).sum(0)
    return torch.stack([into + v.added * back, out])


class PairFlows:
    """Three sums over a tile for each member, from which the marginal of one blank follows:
    into, out and back in

        u = (into + added_u back) / out,    into = sum_y k A into_v,    out = sum_y k B out_v,
                back = sum_y k B scale_v ,

    and the same for v with A and B exchanged. With alpha = 1 k is the same everywhere, and the
    sums are multiplied by it.
    """

    def __init__(self, table: Tensor, u: Site, v: Site, part: Sequence[Tile]) -> None:
        """Allocates work space for the largest of the tiles `part`."""
        k, self.work = (
            table.new_empty((part[0][0].stop - part[0][0].start, table.shape[1])) for _ in range(2)
        )
        self.k = k
        self.constant, self.restarts = (
            (u.alpha == 1).flatten().tolist(),
            (u.kappa > 0).flatten().tolist(),
        )
        self.u, self.v, self.of_v = u.scale.to(k.dtype), v.scale.to(k.dtype), self._terms(v)
        self.row_sums, self.column_sums = (k.new_zeros((3, len(u.near), size)) for size in k.shape)

    def _terms(self, site: Site) -> list[Sequence[Tensor]]:
        return [x.to(self.k.dtype).unbind() for x in (site.into, site.out, site.scale)]

    def of_rows(self, a: Tensor, b: Tensor, rows: slice) -> Float[Tensor, "3 m x"]:
        """The sums over y, in float64, for some rows."""
        sums = self.row_sums[:, :, : len(a)]
        self._add(sums, a, b, self.u[:, rows], self.of_v)
        return sums.double()

    def of_columns(self, a: Tensor, b: Tensor, u: Site) -> Float[Tensor, "3 m y"]:
        """The sums over the x of `u`."""
        self._add(self.column_sums, b, a, u.scale.to(self.k.dtype), self._terms(u), over_x=True)
        return self.column_sums

    def _add(
        self,
        sums: Tensor,
        p: Tensor,
        q: Tensor,
        u: Tensor,
        other: Sequence[Sequence[Tensor]],
        over_x: bool = False,
    ) -> None:
        def times(cells: Tensor, vector: Tensor, out: Tensor) -> None:
            torch.mv(cells.T if over_x else cells, vector, out=out)

        k, work = self.k[: len(p)], self.work[: len(p)]
        for i, (into, out, scale) in enumerate(zip(*other, strict=True)):
            constant = self.constant[i]
            if not constant:
                torch.add(u[i, :, None], self.v[i], out=k)
            times(p if constant else torch.div(p, k, out=work), into, out=sums[0, i])
            cells = q if constant else torch.div(q, k, out=work)
            times(cells, out, out=sums[1, i])
            if self.restarts[i]:
                times(cells, scale, out=sums[2, i])
            if constant:
                sums[:, i] /= u[i, 0] + self.v[i, 0]
