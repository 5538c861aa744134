"""Members of the near-compatible family over the tables of blocks, several side by side, and the
terms of their equations.

The fixed point consists of the marginals m_t = mu_{-t} (mu with site t summed out). With mu =
(sum_t W_t q_t) / (sum_t I_t) (see `unmask.joints.family_rule`), beta = 1 - alpha and the chain
c = sum_t c_t q_t, W_t and I_t are

    W_t = (1 - lambda) m_t^alpha + lambda k c_t,        I_t = (1 - lambda) m_t^-beta + lambda .

The marginals are divided by a common e^c (c a number here, not the chain), which puts their powers
in the middle of the range of floating-point numbers. With m_t e^-c for m_t both equations stay as
they are if their second terms become

    added  =  lambda k c_t e^(-alpha c)   in W_t,        kappa  =  lambda e^(beta c)   in I_t .
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import log, prod
from operator import methodcaller

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.constructions.closed_forms import chain_weights
from unmask.joints.stacks import Stack
from unmask.joints.tiles import along, contexts
from unmask.joints.without_mass import without_mass
from unmask.models.batching import on_device
from unmask.tables.unary import Tables

Marginals = tuple[Tensor, ...]  # log mu_{-t} for each t in float64, with size 1 at axis t
LOWEST = -1200.0
"""The logarithm that a marginal of zero is given: that of a token which the model rules out in
every context.
"""
REACH = {torch.float32: 80.0, torch.float64: 600.0}
"""How far logarithms may lie from c, so that their powers are positive numbers."""


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint, or of the uniform distribution (the paper's start)."""
    of_tokens = []  # log p(x_t) of each site t
    for t, log_masked in enumerate(tables.log_masked):
        log_p = log_masked
        if uniform:
            log_p = torch.full_like(log_masked, -log(len(log_masked)))
        of_tokens.append(along(log_p, t, tables.sites).double())
    log_mu = []
    for t in range(tables.sites):
        others = [log_p for s, log_p in enumerate(of_tokens) if s != t]
        log_mu.append(sum(others, contexts(tables, t)))
    return tuple(log_mu)


def flat(log_mu: Marginals) -> Float[Tensor, " n"]:
    """All marginals in one vector."""
    return torch.cat([m.flatten() for m in log_mu])


def unflat(vector: Float[Tensor, " n"], shape: Sequence[int]) -> Marginals:
    """The marginals in a vector, of a block of this shape."""
    cells = prod(shape)
    log_mu = []
    for t, part in enumerate(vector.split([cells // n for n in shape])):
        shape_of_contexts = list(shape)
        shape_of_contexts[t] = 1
        log_mu.append(part.reshape(shape_of_contexts))
    return tuple(log_mu)


def centred_rows(
    points: Float[Tensor, "m n"], dtype: torch.dtype, dead: Bool[Tensor, "m n"] | None = None
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    """The log marginals of several members, one per row, over e^c; and c, the middle of the range
    of those that are not `dead`.

    If marginals are further apart than e^160 in float32 (e^1200 in float64), the smallest are
    raised.
    """
    reach = REACH[dtype]
    high = points.amax(1, keepdim=True)
    with_mass = points if dead is None else points.masked_fill(dead, torch.inf)
    low = torch.maximum(with_mass.amin(1, keepdim=True), high - 2 * reach)
    c = (high + low) / 2
    return (points - c).clamp_min(-reach), c


@dataclass(frozen=True)
class Site:
    """The marginal m = m_t of several members, one per row, and the terms that the equations make
    of it. All are over e^c, and in float64.

    log_m     log m; after the axis of the members it has the shape of the contexts
    added     what restarts add to W, of the same shape; zero without restarts
    alpha     of each member
    keep      1 - lambda of each member
    kappa     what restarts add to I; zero without restarts
    restarts  False where no member of the run restarts
    """

    log_m: Tensor
    added: Tensor
    alpha: Float[Tensor, "m 1"]
    keep: Float[Tensor, "m 1"]
    kappa: Float[Tensor, "m 1"]
    restarts: bool = True

    def moved(self, log_m: Tensor) -> Site:
        """The same site with another marginal."""
        return replace(self, log_m=log_m)

    def over(self, take: Callable[[Tensor], Tensor]) -> Site:
        """The same site with `take` applied to its tensors over contexts: some contexts, or
        another shape.
        """
        return replace(self, log_m=take(self.log_m), added=take(self.added))

    def select(self, rows: slice | Tensor) -> Site:
        """The same site of some members."""
        return replace(
            self,
            log_m=self.log_m[rows],
            added=self.added[rows],
            alpha=self.alpha[rows],
            keep=self.keep[rows],
            kappa=self.kappa[rows],
        )

    def member(self, row: int) -> Site:
        """The same site of one member."""
        alone = self.select(slice(row, row + 1))
        return replace(alone, restarts=bool(self.kappa[row] > 0))

    @cached_property
    def own_weight(self) -> Tensor:
        """(1 - lambda) m^alpha."""
        return self.keep * (self.alpha * self.log_m).exp()

    @cached_property
    def log_weight(self) -> Tensor:
        """log W."""
        own = self.keep.log() + self.alpha * self.log_m
        return torch.logaddexp(own, self.added.log())

    @cached_property
    def log_inverse(self) -> Tensor:
        """log I."""
        own = self.keep.log() + (self.alpha - 1) * self.log_m
        return torch.logaddexp(own, self.kappa.log())

    @cached_property
    def _power(self) -> Tensor:
        """m^beta."""
        return ((1 - self.alpha) * self.log_m).exp()

    @cached_property
    def scale(self) -> Tensor:
        """1 / I, which is m^beta without restarts."""
        return self._power / (self.keep + self.kappa * self._power)

    @cached_property
    def into(self) -> Tensor:
        """W / I, which is m without restarts."""
        over = self.keep * self.log_m.exp() + self.added * self._power
        return over / (self.keep + self.kappa * self._power)

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
    alpha, restart   the member of each row; restart is lambda
    log_chain   log c_t for all t, in the order of `flat`
    sizes       how many contexts each site has
    restarts    False where no member restarts
    dead        contexts that hold no mass at the fixed point (`unmask.joints.without_mass`); None
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
        LOWEST. Contexts of pairs never are.
        """
        like = blocks[0].log_q[0]
        sizes = tuple(like.numel() // n for n in blocks[0].shape)
        parameters = [*members] * len(blocks)
        alpha, restart = on_device(parameters, like.device, torch.float64).split(1, 1)
        restarts = any(member.restart for member in members)
        if restarts:
            chains = torch.stack([flat(chain_weights(tables)) for tables in blocks])
            log_chain = chains.repeat_interleave(len(members), 0)
        else:
            log_chain = alpha.new_full((1, 1), -torch.inf).expand(len(parameters), sum(sizes))
        owner: list[int] = []
        for block in range(len(blocks)):
            owner += [block] * len(members)
        rows = Members(
            blocks=tuple(blocks),
            owner=tuple(owner),
            alpha=alpha,
            restart=restart,
            log_chain=log_chain,
            sizes=sizes,
            restarts=restarts,
        )
        if lowered and blocks[0].sites > 2:
            return replace(rows, dead=_without_mass(rows))
        return rows

    def select(self, chosen: Sequence[int]) -> Members:
        """Some of the rows."""
        rows = on_device(chosen, self.alpha.device, torch.long)
        return replace(
            self,
            owner=tuple(self.owner[row] for row in chosen),
            alpha=self.alpha[rows],
            restart=self.restart[rows],
            log_chain=self.log_chain[rows],
            dead=None if self.dead is None else self.dead[rows],
        )

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
        first = Stack.of([tables.log_q[0] for tables in self.blocks], self.owner)
        second = Stack.of([tables.log_q[1] for tables in self.blocks], self.owner)
        return first, second

    def by_block(self) -> Iterator[tuple[int, slice]]:
        """The blocks that still have rows, and these rows."""
        first = 0
        for block, rows in groupby(self.owner):
            count = len(list(rows))
            yield block, slice(first, first + count)
            first += count

    def sites_at(
        self, points: Float[Tensor, "m n"], dtype: torch.dtype
    ) -> tuple[list[Site], Float[Tensor, "m 1"]]:
        """The sites at log marginals `points`, for tables of `dtype`, and c."""
        log_m, c = centred_rows(points, dtype, self.dead)
        log_restart = self.restart.log()
        kappa = (log_restart + (1 - self.alpha) * c).exp()
        added = (log_restart + self.log_chain - self.alpha * c).exp() * len(self.sizes)
        sites = []
        parts = zip(log_m.split(self.sizes, 1), added.split(self.sizes, 1), strict=True)
        for log_m_of_site, added_of_site in parts:
            site = Site(
                log_m=log_m_of_site,
                added=added_of_site,
                alpha=self.alpha,
                keep=1 - self.restart,
                kappa=kappa,
                restarts=self.restarts,
            )
            sites.append(site)
        return sites, c


def _without_mass(members: Members) -> Bool[Tensor, "m n"] | None:
    """For each row the contexts that hold no mass; None where all do.

    They depend on the block and on whether the member restarts, and are found once for each such
    kind of row.
    """
    dead_of_kind: dict[tuple[int, bool], Tensor | None] = {}
    dead_of_rows = []
    restarts = [restart > 0 for restart in members.restart.flatten().tolist()]
    for row, kind in enumerate(zip(members.owner, restarts, strict=True)):
        if kind not in dead_of_kind:
            block, restarts_here = kind
            log_chain = members.log_chain[row] if restarts_here else None
            dead_of_kind[kind] = without_mass(members.blocks[block].log_q, log_chain)
        dead_of_rows.append(dead_of_kind[kind])
    if all(dead is None for dead in dead_of_rows):
        return None
    none_dead = torch.zeros_like(members.log_chain[0], dtype=torch.bool)
    rows = []
    for dead in dead_of_rows:
        rows.append(none_dead if dead is None else dead)
    return torch.stack(rows)


def shaped(tables: Tables, sites: Sequence[Site]) -> list[Site]:
    """The sites of one member, each with the shape of its contexts."""
    with_shape = []
    for t, site in enumerate(sites):
        shape = contexts(tables, t).shape
        with_shape.append(site.over(methodcaller("reshape", shape)))
    return with_shape
