"""The two simplest rules: a sum of factors, and the mean of joints that are such sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import log

import torch
from torch import Tensor

from unmask.joints.joint import Index, sum_at


@dataclass(frozen=True)
class SumRule:
    """r(x) = sum of factors, each a tensor with size 1 on the axes that it does not depend on."""

    factors: tuple[Tensor, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        return sum_at(self.factors, index)


@dataclass(frozen=True)
class MeanRule:
    """r(x) = log of the mean of exp(part(x) - log_z) over parts with their normalisers."""

    parts: tuple[SumRule, ...]
    log_z: tuple[float, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        cells = [part(index) - z for part, z in zip(self.parts, self.log_z, strict=True)]
        return reduce(torch.logaddexp, cells) - log(len(cells))
