"""Tables of several pairs for one launch of a GPU program.

They are matrices of one shape, anywhere in a device's memory. A program finds each by its distance
from the first. So tables are not copied together, and a pair that has converged leaves by a shorter
list of distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import ceil, gcd

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.batching import on_device, triton_wanted
from unmask.tables.unary import Tables

ALIGNED = 16
"""Cells. Every matrix of a stack begins at a multiple of it, so that a program may load several
cells at once.
"""
CHANGING = ("begins", "n", "m")
"""Arguments of programs whose values change from launch to launch: `begins` of a `Stack`, and its
shape (n, m). One program is compiled for all their values.
"""


@dataclass(frozen=True)
class Stack:
    """Matrices of one shape, one for each of several pairs, and the rows of a launch over them.

    Each row of a launch reads one matrix. The rows of a pair follow each other.

    matrices  their memory must stay where it is
    places    for each pair, how many cells after the first of `matrices` its matrix begins
    begins    for each pair, its first row; and at the end the number of rows
    rows      the number of rows
    """

    matrices: tuple[Float[Tensor, "n m"], ...]
    places: Int[Tensor, " pairs"]
    begins: Int[Tensor, " pairs_and_one"]
    rows: int

    @staticmethod
    def of(matrices: Sequence[Tensor], owner: Sequence[int] | None = None) -> Stack:
        """A stack of matrices.

        owner     the number of the matrix that each row reads, equal ones side by side; by default
                  row i reads matrix i
        """
        first = matrices[0]
        owners = range(len(matrices)) if owner is None else owner
        places = []
        counts = []  # how many rows read each matrix
        for number, rows in groupby(owners):
            distance_in_bytes = matrices[number].data_ptr() - first.data_ptr()
            places.append(distance_in_bytes // first.element_size())
            counts.append(len(list(rows)))
        begins = list(accumulate(counts, initial=0))
        both = on_device([*places, *begins], first.device)  # one copy to the device
        return Stack(
            matrices=tuple(matrices),
            places=both[: len(places)],
            begins=both[len(places) :],
            rows=len(owners),
        )

    @property
    def first(self) -> Float[Tensor, "n m"]:
        return self.matrices[0]

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    @property
    def known(self) -> dict[str, int]:
        """Constants that a program is compiled with, both in cells.

        ALIGNED   every matrix begins at a multiple of it
        EVEN      every row of a matrix has a multiple of it; it divides ALIGNED
        """
        return {"ALIGNED": ALIGNED, "EVEN": gcd(ALIGNED, self.shape[1])}

    def read_with(self, other: Stack) -> tuple[Tensor | int, ...]:
        """The first arguments of a program that reads this stack beside another of the same rows
        and shape.
        """
        n, m = self.shape
        return (self.first, other.first, self.places, other.places, self.begins, n, m)

    def __len__(self) -> int:
        """The number of pairs that rows read."""
        return len(self.places)


def aligned(matrix: Tensor) -> bool:
    """Whether a matrix can be in a stack: its cells lie in order, from a multiple of ALIGNED on."""
    multiple = ALIGNED * matrix.element_size()  # in bytes
    return matrix.is_contiguous() and matrix.data_ptr() % multiple == 0


def aligned_zeros(like: Tensor, count: int, shape: tuple[int, int]) -> Float[Tensor, "count n m"]:
    """`count` matrices of zeros in one tensor, each of which can be in a stack."""
    cells = shape[0] * shape[1]
    padded_cells = ceil(cells / ALIGNED) * ALIGNED
    padded = like.new_zeros((count, padded_cells))
    return padded[:, :cells].unflatten(1, shape)


def triton_serves(*blocks: Tables) -> bool:
    """Whether the tables are those of pairs in float32 on a GPU that Triton compiles for."""
    if not triton_wanted(blocks[0].log_q[0]):
        return False
    for tables in blocks:
        if tables.sites != 2:
            return False
        if not all(q.dtype == torch.float32 and aligned(q) for q in tables.log_q):
            return False
    return True
