"""Rules next to the near-compatible family with restarts, for `bench/rules.py`; each is a change of one thing in its equation

    mu = ( (1 - lambda) sum_t w_t q_t + lambda k c ) / ( (1 - lambda) sum_t w_t / mu_{-t} + lambda k ),        k = 2.

masked weights   w_t = m_{-t}^alpha, the probability of the context with the whole block masked, where the family has mu's own.
                 The weights are fixed, so that mu minimises an objective that does not move with it. At alpha = 1 the
                 numerator is the chain times k, whatever lambda.
one order        c through the first blank, or through the second, where the family has the mean of both.
pools            of two joints: w mu + (1 - w) nu, or proportional to mu^w nu^(1-w).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import log

import torch
from torch import Tensor
from torch.nn import functional

from unmask.joints.arnold_gokhale import MAX_READS, TOLERANCE, FamilyRule
from unmask.joints.joint import Joint
from unmask.joints.registry import Member
from unmask.joints.solver.members import Members, Site, flat, start
from unmask.joints.solver.solve import solve
from unmask.joints.tiles import Index
from unmask.tables.unary import Tables


@dataclass(frozen=True)
class WeightedSite(Site):
    """A site whose contexts have weights of their own: `keep` is (1 - lambda) w_t, a number per context."""

    def part(self, places: slice) -> Site:
        """The same site over some of its contexts."""
        return replace(super().part(places), keep=self.keep[:, places])

    def gathered(self, places: Tensor) -> Site:
        """The same site over some contexts of each row."""
        return replace(super().gathered(places), keep=functional.pad(self.keep, (0, 1), value=1.0).gather(1, places))


@dataclass(frozen=True)
class WeightedMembers(Members):
    """Members with fixed weights w_t = exp(log_weight): alpha is 0 as far as mu's own marginals go."""

    log_weight: Tensor

    def rows(self, chosen: Sequence[int]) -> Members:
        """Some of the members."""
        return replace(super().rows(chosen), log_weight=self.log_weight[list(chosen)])

    def at(self, points: Tensor, dtype: torch.dtype) -> tuple[list[Site], Tensor]:
        """The sites at log marginals `points`, and c."""
        sites, c = super().at(points, dtype)
        weights = self.log_weight.exp().split(self.sizes, 1)
        return [
            WeightedSite(s.near, s.added, s.alpha, s.keep * w, s.kappa, s.restarts) for s, w in zip(sites, weights, strict=True)
        ], c


def masked_weights(tables: Tables, asked: Sequence[Member]) -> list[Joint]:
    """Members whose weights are powers of the masked marginals."""
    plain = Members.of([tables], [Member(0.0, one.restart) for one in asked])
    powers = torch.tensor([one.alpha for one in asked], dtype=torch.float64, device=plain.alpha.device)
    weighted = WeightedMembers(**vars(plain), log_weight=powers[:, None] * flat(start(tables)))
    return _joints(tables, weighted, [f"masked weights {one.alpha:g},{one.restart:g}" for one in asked])


def one_order(tables: Tables, asked: Sequence[Member]) -> list[Joint]:
    """Members that restart from the chain through the first blank, and from that through the second."""
    found = []
    for order in ("forward", "backward"):
        plain = Members.of([tables], asked)
        over_y, over_x = (plain.log_chain + log(2)).split(plain.sizes, 1)
        ends = (
            (torch.full_like(over_y, -torch.inf), over_x) if order == "forward" else (over_y, torch.full_like(over_x, -torch.inf))
        )
        names = [f"{order} {one.alpha:g},{one.restart:g}" for one in asked]
        found += _joints(tables, replace(plain, log_chain=torch.cat(ends, 1)), names)
    return found


def _joints(tables: Tables, members: Members, names: Sequence[str]) -> list[Joint]:
    solutions = solve(members, TOLERANCE, MAX_READS)
    rules = [FamilyRule(tables, one.log_mu, members.rows([i])) for i, one in enumerate(solutions)]
    return [
        Joint(name, tables, rule, {"steps": one.steps, "reads": one.reads})
        for name, rule, one in zip(names, rules, solutions, strict=True)
    ]


def geometric(name: str, joints: Sequence[Joint], weights: Sequence[float]) -> Joint:
    """Proportional to the product of the joints' powers."""

    def rule(index: Index) -> Tensor:
        return sum((share * joint.rule(index) for share, joint in zip(weights, joints, strict=True)), torch.zeros(()))

    return Joint(name, joints[0].tables, rule)


def arithmetic(name: str, joints: Sequence[Joint], weights: Sequence[float]) -> Joint:
    """The weighted mean of the joints."""

    def rule(index: Index) -> Tensor:
        return reduce(torch.logaddexp, (joint.log_tile(index) + log(w) for w, joint in zip(weights, joints, strict=True)))

    return Joint(name, joints[0].tables, rule, known_log_z=0.0)
