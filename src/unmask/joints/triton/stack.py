"""Tables of several pairs in one launch: matrices of one shape that lie anywhere in a device's memory.

A GPU program knows the first matrix, and how many cells further that of its row begins. So tables need not be copied together,
and a pair that has converged leaves by a shorter list of places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

ALIGNED = 16
"""Cells whose multiples all matrices begin at, so that a program may load several at once."""


@dataclass(frozen=True)
class Stack:
    """For each row a matrix; `places`: how many cells after the first matrix it begins."""

    matrices: tuple[Float[Tensor, "n m"], ...]
    places: Int[Tensor, " rows"]

    @staticmethod
    def of(matrices: Sequence[Tensor], owner: Sequence[int] | None = None) -> Stack:
        """`owner`: which matrix each row reads; by default each matrix is read by one row."""
        first = matrices[0]
        begins = [(matrix.data_ptr() - first.data_ptr()) // first.element_size() for matrix in matrices]
        rows = range(len(matrices)) if owner is None else owner
        return Stack(tuple(matrices), torch.tensor([begins[block] for block in rows], device=first.device))

    @property
    def first(self) -> Float[Tensor, "n m"]:
        return self.matrices[0]

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    def __len__(self) -> int:
        return len(self.places)


def aligned(matrix: Tensor) -> bool:
    """Whether a matrix can be in a stack: its cells lie in order, from a multiple of ALIGNED on."""
    return matrix.is_contiguous() and matrix.data_ptr() % (ALIGNED * matrix.element_size()) == 0


def aligned_zeros(like: Tensor, count: int, shape: tuple[int, int]) -> Float[Tensor, "count n m"]:
    """So many matrices of zeros in one tensor, each of which can be in a stack."""
    cells = shape[0] * shape[1]
    return like.new_zeros((count, -(-cells // ALIGNED) * ALIGNED))[:, :cells].unflatten(1, shape)
