"""Members of the near-compatible family over a block's tables, several side by side, and the terms of their equations.

With mu = (sum_t W_t q_t) / (sum_t I_t) (see `unmask.joints.arnold_gokhale`), m_t = mu_{-t}, beta = 1 - alpha and the chain
c = sum_t c_t q_t, the weights and the parts of the denominator are

    W_t = (1 - lambda) m_t^alpha + lambda k c_t,        I_t = (1 - lambda) m_t^-beta + lambda .

The marginals are worked with over e^c (see `marginals`): with m_t e^-c for m_t, lambda e^(beta c) for the lambda in I_t, called
`kappa`, and lambda k c_t e^(-alpha c) for the second term of W_t, called `added`, both equations stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.chain import chain_weights
from unmask.joints.registry import Member
from unmask.joints.solver.marginals import centred_rows, flat
from unmask.tables.unary import Tables


@dataclass(frozen=True)
class Site:
    """The marginal m_t of several members, one per row, and what the equations take of it; all in float64.

    near     log m_t, over e^c
    added    what restarts add to the weights; zero without them
    kappa    what restarts add to the denominator
    """

    near: Tensor
    added: Tensor
    alpha: Float[Tensor, "m 1"]
    keep: Float[Tensor, "m 1"]
    kappa: Float[Tensor, "m 1"]

    def moved(self, near: Tensor) -> Site:
        """The same site with another marginal."""
        return replace(self, near=near)

    def part(self, places: Tensor | slice) -> Site:
        """The same site over some of its contexts."""
        return replace(self, near=self.near[:, places], added=self.added[:, places])

    def member(self, i: int) -> Site:
        """The same site of one member."""
        row = slice(i, i + 1)
        return Site(self.near[row], self.added[row], self.alpha[row], self.keep[row], self.kappa[row])

    @cached_property
    def kept(self) -> Tensor:
        """(1 - lambda) m^alpha."""
        return self.keep * (self.alpha * self.near).exp()

    @cached_property
    def restarts(self) -> bool:
        """Whether any member restarts."""
        return bool((self.kappa > 0).any())

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
    """One member per row.

    log_chain   log c_t for all t, in the order of `marginals.flat`
    sizes       how many contexts each site has
    """

    alpha: Float[Tensor, "m 1"]
    restart: Float[Tensor, "m 1"]
    log_chain: Float[Tensor, "m n"]
    sizes: tuple[int, ...]

    @staticmethod
    def of(tables: Tables, members: Sequence[Member]) -> Members:
        """The members over these tables."""
        like = tables.log_q[0]
        alpha, restart = torch.tensor(list(members), dtype=torch.float64, device=like.device).split(1, 1)
        sizes = tuple(like.numel() // n for n in tables.shape)
        log_chain = alpha.new_full((1, sum(sizes)), -torch.inf)
        if any(member.restart for member in members):
            log_chain = flat(chain_weights(tables))[None, :]
        return Members(alpha, restart, log_chain.expand(len(members), -1), sizes)

    def rows(self, chosen: Sequence[int]) -> Members:
        """Some of the members."""
        which = list(chosen)
        return replace(self, alpha=self.alpha[which], restart=self.restart[which], log_chain=self.log_chain[which])

    def at(self, points: Float[Tensor, "m n"], dtype: torch.dtype) -> tuple[list[Site], Float[Tensor, "m 1"]]:
        """The sites at log marginals `points`, for tables of `dtype`, and c."""
        near, c = centred_rows(points, dtype)
        log_restart = self.restart.log()
        kappa = (log_restart + (1 - self.alpha) * c).exp()
        added = (log_restart + self.log_chain - self.alpha * c).exp() * len(self.sizes)
        parts = zip(near.split(self.sizes, 1), added.split(self.sizes, 1), strict=True)
        return [Site(m, r, self.alpha, 1 - self.restart, kappa) for m, r in parts], c
