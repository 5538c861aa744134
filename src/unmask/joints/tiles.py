"""Cells of a block's tables, a tile at a time: how everything that is summed over a block streams through memory.

A tensor over a block has one axis per site; one that does not depend on a site has size 1 on that axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

from unmask.tables.unary import Tables

Result = TypeVar("Result")
Tile = tuple[slice, ...]
Index = tuple[slice | Tensor, ...]
"""One entry per axis: all slices (a tile, axes kept), or all integer vectors of one length (single cells)."""

CELLS_ON_CPU = 1 << 18
"""The few arrays of a tile stay in the processor's cache."""
CELLS_ON_GPU = 1 << 24
"""Enough to hide the launches of the many small steps of a tile."""


def tile_size(tables: Tables) -> int:
    """How many cells of a tile suit the device that the tables are on."""
    return CELLS_ON_CPU if tables.log_q[0].device.type == "cpu" else CELLS_ON_GPU


def tiles(shape: Sequence[int], cells: int) -> Iterator[Tile]:
    """Indices that cover `shape` in runs of its first axis, at most `cells` cells each, but at least one row."""
    rows = max(1, cells // max(1, prod(shape[1:])))
    rest = tuple(slice(0, n) for n in shape[1:])
    for start in range(0, shape[0], rows):
        yield (slice(start, min(start + rows, shape[0])), *rest)


def by_threads(table: Tensor, work: Callable[[Sequence[Tile]], Result], cells: int | None = None) -> list[Result]:
    """`work` on the tiles of consecutive parts of a table, one part per thread of a processor; the results in order.

    A tile is too small to be shared: the operations on it would spend more time waiting for each other than computing.
    """
    on_cpu, threads = table.device.type == "cpu", torch.get_num_threads()
    every = list(tiles(table.shape, cells or (CELLS_ON_CPU if on_cpu else CELLS_ON_GPU)))
    count = min(threads, len(every)) if on_cpu else 1
    if count == 1:
        return [work(every)]
    ends = [len(every) * i // count for i in range(count + 1)]
    parts = [every[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, parts))
    finally:
        torch.set_num_threads(threads)  # a worker sets its own number, and that of threads to come


def at(tensor: Tensor, index: Index) -> Tensor:
    """`tensor[index]` for a tensor that may have size 1 on an axis that it does not depend on."""
    return tensor[
        tuple(
            i if size > 1 else (slice(None) if isinstance(i, slice) else torch.zeros_like(i))
            for i, size in zip(index, tensor.shape, strict=True)
        )
    ]


def sum_at(factors: Sequence[Tensor], index: Index) -> Tensor:
    """Sum of the factors' cells at `index`."""
    total = at(factors[0], index)
    for factor in factors[1:]:
        total = total + at(factor, index)
    return total


class Weights:
    """q = e^log_q of some cells, to weigh other numbers by: q r = 0 where q = 0, whatever r is; where q > 0, however small, an r
    of -inf gives -inf.
    """

    def __init__(self, log_q: Tensor) -> None:
        self.tiny = torch.finfo(log_q.dtype).tiny
        self.weights = log_q.exp().clamp_(min=self.tiny)
        nothing = log_q == -torch.inf
        self.nothing = nothing if bool(nothing.any()) else None

    @cached_property
    def exact(self) -> bool:
        """Whether all q are within the range of normal numbers."""
        return bool(self.weights.amin() > self.tiny)

    def times(self, values: Tensor, out: Tensor | None = None) -> Tensor:
        """q values."""
        weighed = torch.mul(self.weights, values, out=out)
        return weighed if self.nothing is None else weighed.masked_fill_(self.nothing, 0)


def along(vector: Tensor, axis: int, sites: int) -> Tensor:
    """A vector over axis `axis` of `sites`, shaped to broadcast over the others."""
    return vector.reshape([-1 if s == axis else 1 for s in range(sites)])


def contexts(tables: Tables, t: int) -> Tensor:
    """A float64 zero for every context of site t, the block's shape with size 1 at axis t."""
    shape = [1 if s == t else n for s, n in enumerate(tables.shape)]
    return torch.zeros(shape, dtype=torch.float64, device=tables.log_q[0].device)
