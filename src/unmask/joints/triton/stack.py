"""Tables of several pairs in one launch: matrices of one shape that lie anywhere in a device's memory.

A GPU program knows the first matrix, and how many cells further that of its pair begins. So tables need not be copied together,
and a pair that has converged leaves by a shorter list of places. Several rows may read one matrix, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import gcd

import torch
from jaxtyping import Float, Int
from torch import Tensor

ALIGNED = 16
"""Cells whose multiples all matrices begin at, so that a program may load several at once."""
CHANGING = ("begins", "n", "m")
"""Arguments of programs whose values change from launch to launch: one program is compiled for all."""


@dataclass(frozen=True)
class Stack:
    """For each pair a matrix; `places`: how many cells after the first matrix it begins; `begins`: its first row, and at the end
    how many rows there are.
    """

    matrices: tuple[Float[Tensor, "n m"], ...]
    places: Int[Tensor, " pairs"]
    begins: Int[Tensor, " pairs_and_one"]
    rows: int

    @staticmethod
    def of(matrices: Sequence[Tensor], owner: Sequence[int] | None = None) -> Stack:
        """`owner`: which matrix each row reads, those of a matrix in a row; by default each matrix is read by one row."""
        first, rows = matrices[0], range(len(matrices)) if owner is None else owner
        readers = [(block, len(list(of_block))) for block, of_block in groupby(rows)]
        places = [(matrices[block].data_ptr() - first.data_ptr()) // first.element_size() for block, _ in readers]
        begins = list(accumulate((count for _, count in readers), initial=0))
        numbers = torch.tensor([*places, *begins], device=first.device)
        return Stack(tuple(matrices), numbers[: len(places)], numbers[len(places) :], len(rows))

    @property
    def first(self) -> Float[Tensor, "n m"]:
        return self.matrices[0]

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    @property
    def known(self) -> dict[str, int]:
        """What a program is compiled with: the multiples that matrices begin at, and that their lines are of."""
        return {"ALIGNED": ALIGNED, "EVEN": gcd(ALIGNED, self.shape[1])}

    def read_with(self, other: Stack) -> tuple[Tensor | int, ...]:
        """The first arguments of a program that reads this stack beside another."""
        return (self.first, other.first, self.places, other.places, self.begins, *self.shape)

    def __len__(self) -> int:
        return len(self.places)


def aligned(matrix: Tensor) -> bool:
    """Whether a matrix can be in a stack: its cells lie in order, from a multiple of ALIGNED on."""
    return matrix.is_contiguous() and matrix.data_ptr() % (ALIGNED * matrix.element_size()) == 0


def aligned_zeros(like: Tensor, count: int, shape: tuple[int, int]) -> Float[Tensor, "count n m"]:
    """So many matrices of zeros in one tensor, each of which can be in a stack."""
    cells = shape[0] * shape[1]
    return like.new_zeros((count, -(-cells // ALIGNED) * ALIGNED))[:, :cells].unflatten(1, shape)
