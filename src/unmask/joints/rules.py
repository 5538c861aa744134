"""The two simplest rules: a sum of factors, and the mean of joints that are such sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import log

import torch
from torch import Tensor

from unmask.joints.tiles import Index, sum_at
from unmask.joints.triton.pair_form import Linear, PairForm
from unmask.tables.unary import Tables


@dataclass(frozen=True, eq=False)
class SumRule:
    """r(x) = sum of factors, each a tensor with size 1 on the axes that it does not depend on."""

    factors: tuple[Tensor, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        return sum_at(self.factors, index)

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The sum in the form that a GPU reads, where every factor is a table or a vector."""
        first = self.linear(tables)
        return None if first is None else PairForm(first)

    def linear(self, tables: Tables, constant: float = 0.0) -> Linear | None:
        """The sum plus a constant, as tables and vectors of a pair."""
        powers = [0, 0]
        like = tables.log_q[0]
        f, e = like.new_full((like.shape[0],), constant), like.new_zeros(like.shape[1])
        for factor in self.factors:
            if factor is tables.log_q[0]:
                powers[0] += 1
            elif factor is tables.log_q[1]:
                powers[1] += 1
            elif factor.shape[1] == 1:
                f += factor.flatten()
            elif factor.shape[0] == 1:
                e += factor.flatten()
            else:
                return None
        return Linear(powers[0], powers[1], f, e) if max(powers) <= 1 else None


@dataclass(frozen=True, eq=False)
class MeanRule:
    """r(x) = log of the mean of exp(part(x) - log_z) over parts with their normalisers."""

    parts: tuple[SumRule, ...]
    log_z: tuple[float, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        cells = [part(index) - z for part, z in zip(self.parts, self.log_z, strict=True)]
        return reduce(torch.logaddexp, cells) - log(len(cells))

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The mean of two, one with each table, in the form that a GPU reads."""
        halves = [part.linear(tables, -z - log(2)) for part, z in zip(self.parts, self.log_z, strict=True)]
        over = {(half.a, half.b): half for half in halves if half is not None}
        return PairForm(over[1, 0], over[0, 1]) if len(halves) == 2 and over.keys() == {(1, 0), (0, 1)} else None
