"""Members of the near-compatible family over the tables of blocks, several side by side, and the terms of their equations.

The fixed point consists of the marginals m_t = mu_{-t} (mu with site t summed out). With mu = (sum_t W_t q_t) / (sum_t I_t)
(see `unmask.joints.arnold_gokhale`), beta = 1 - alpha and the chain c = sum_t c_t q_t, W_t and I_t are

    W_t = (1 - lambda) m_t^alpha + lambda k c_t,        I_t = (1 - lambda) m_t^-beta + lambda .

The marginals are divided by a common e^c, which puts their powers in the middle of the range of floating-point numbers: with
m_t e^-c for m_t, lambda e^(beta c) for the lambda in I_t, called `kappa`, and lambda k c_t e^(-alpha c) for the second term of
W_t, called `added`, both equations stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unmask.joints.chain import chain_weights
from unmask.joints.registry import Member
from unmask.joints.rules import Stack
from unmask.joints.tiles import along, contexts
from unmask.tables.unary import Tables

Marginals = tuple[Tensor, ...]
"""log mu_{-t} for each t in float64, with size 1 at axis t."""
LOWEST = -1200.0
"""The logarithm that a marginal of zero is given: that of a token which the model rules out in every context."""
REACH = {torch.float32: 80.0, torch.float64: 600.0}
"""How far logarithms may lie from c, so that their powers are positive numbers."""


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint, or of the uniform distribution (the paper's start)."""
    k = tables.sites
    sites = [along(torch.full_like(m, -log(len(m))) if uniform else m, t, k).double() for t, m in enumerate(tables.log_masked)]
    return tuple(sum((m for s, m in enumerate(sites) if s != t), contexts(tables, t)) for t in range(k))


def flat(log_mu: Marginals) -> Float[Tensor, " n"]:
    """All marginals in one vector."""
    return torch.cat([m.flatten() for m in log_mu])


def unflat(vector: Float[Tensor, " n"], like: Marginals) -> Marginals:
    """The marginals in a vector, in the shapes of `like`."""
    parts = vector.split([m.numel() for m in like])
    return tuple(part.reshape(m.shape) for part, m in zip(parts, like, strict=True))


def centred_rows(points: Float[Tensor, "m n"], dtype: torch.dtype) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    """Log marginals, those of several members in one row each, over e^c, and c, the middle of their range.

    Of marginals that are further apart than e^160 in float32 (e^1200 in float64) the smallest are raised.
    """
    most = REACH[dtype]
    high = points.amax(1, keepdim=True)
    low = torch.maximum(points.amin(1, keepdim=True), high - 2 * most)
    c = (high + low) / 2
    return (points - c).clamp_min(-most), c


@dataclass(frozen=True)
class Site:
    """The marginal m_t of several members, one per row, and what the equations take of it; all in float64.

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

    def part(self, places: slice) -> Site:
        """The same site over some of its contexts."""
        return replace(self, near=self.near[:, places], added=self.added[:, places])

    def gathered(self, places: Int[Tensor, "m p"]) -> Site:
        """The same site over some contexts of each row; where the place is one past the last, m_t = 1 with nothing added."""
        near, added = (functional.pad(x, (0, 1)).gather(1, places) for x in (self.near, self.added))
        return replace(self, near=near, added=added)

    def rows(self, which: slice | Tensor) -> Site:
        """The same site of some members."""
        near, added, alpha, keep, kappa = (x[which] for x in (self.near, self.added, self.alpha, self.keep, self.kappa))
        return replace(self, near=near, added=added, alpha=alpha, keep=keep, kappa=kappa)

    def member(self, i: int) -> Site:
        """The same site of one member."""
        return replace(self.rows(slice(i, i + 1)), restarts=bool(self.kappa[i] > 0))

    @cached_property
    def kept(self) -> Tensor:
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
        return (self.keep * self.near.exp() + self.added * self._power) / (self.keep + self.kappa * self._power)

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
    log_chain   log c_t for all t, in the order of `marginals.flat`
    sizes       how many contexts each site has
    restarts    False where no member restarts
    """

    blocks: tuple[Tables, ...]
    owner: tuple[int, ...]
    alpha: Float[Tensor, "m 1"]
    restart: Float[Tensor, "m 1"]
    log_chain: Float[Tensor, "m n"]
    sizes: tuple[int, ...]
    restarts: bool

    @staticmethod
    def of(blocks: Sequence[Tables], members: Sequence[Member]) -> Members:
        """The members over each of these blocks."""
        like = blocks[0].log_q[0]
        rows = [member for _ in blocks for member in members]
        alpha, restart = torch.tensor(rows, dtype=torch.float64, device=like.device).split(1, 1)
        sizes = tuple(like.numel() // n for n in blocks[0].shape)
        log_chain = alpha.new_full((1, 1), -torch.inf).expand(len(rows), sum(sizes))
        if restarts := any(member.restart for member in members):
            chains = torch.stack([flat(chain_weights(tables)) for tables in blocks])
            log_chain = chains.repeat_interleave(len(members), 0)
        owner = tuple(block for block in range(len(blocks)) for _ in members)
        return Members(tuple(blocks), owner, alpha, restart, log_chain, sizes, restarts)

    def rows(self, chosen: Sequence[int]) -> Members:
        """Some of the rows."""
        which = torch.tensor(list(chosen), dtype=torch.long, device=self.alpha.device)
        parts = {name: getattr(self, name)[which] for name in ("alpha", "restart", "log_chain")}
        return replace(self, owner=tuple(self.owner[i] for i in chosen), **parts)

    @cached_property
    def owners(self) -> Int[Tensor, " m"]:
        """The owner of each row, on the tables' device."""
        return torch.tensor(self.owner, dtype=torch.long, device=self.alpha.device)

    @cached_property
    def stacks(self) -> tuple[Stack, Stack]:
        """Both tables of each row's pair."""
        first, second = (Stack.of([tables.log_q[t] for tables in self.blocks], self.owner) for t in range(2))
        return first, second

    def by_block(self) -> Iterator[tuple[int, slice]]:
        """The blocks that still have rows, and these rows."""
        start = 0
        for block, rows in groupby(self.owner):
            count = len(list(rows))
            yield block, slice(start, start + count)
            start += count

    def at(self, points: Float[Tensor, "m n"], dtype: torch.dtype) -> tuple[list[Site], Float[Tensor, "m 1"]]:
        """The sites at log marginals `points`, for tables of `dtype`, and c."""
        near, c = centred_rows(points, dtype)
        log_restart = self.restart.log()
        kappa = (log_restart + (1 - self.alpha) * c).exp()
        added = (log_restart + self.log_chain - self.alpha * c).exp() * len(self.sizes)
        parts = zip(near.split(self.sizes, 1), added.split(self.sizes, 1), strict=True)
        return [Site(m, r, self.alpha, 1 - self.restart, kappa, self.restarts) for m, r in parts], c
