"""Cells of a block's tables, read in tiles.

A tensor over a block has one axis per site. A tensor that does not depend on a site has size 1 on
that axis. Sums over a block are taken over tiles of its first axis, so that nothing of the
tables' size is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

from unmask.tables.unary import Tables

Result = TypeVar("Result")
Tile = tuple[slice, ...]
Index = tuple[slice | Tensor, ...]
"""One entry per axis. All are slices (a tile, whose axes are kept), or all are integer vectors of
one length (single cells).
"""

CELLS_ON_CPU = 1 << 18  # Cells of a tile: its few arrays stay in the processor's cache
CELLS_ON_GPU = 1 << 24  # Cells of a tile: enough to hide the launches of its many small steps


def tiles(table: Tensor) -> Iterator[Tile]:
    """Indices that cover a table in runs of its first axis.

    Each has as many whole rows as suit the table's device, and at least one.
    """
    cells = CELLS_ON_CPU if table.device.type == "cpu" else CELLS_ON_GPU
    cells_per_row = max(1, prod(table.shape[1:]))
    rows = max(1, cells // cells_per_row)
    rest = tuple(slice(0, n) for n in table.shape[1:])
    for start in range(0, len(table), rows):
        end = min(start + rows, len(table))
        yield (slice(start, end), *rest)


def by_threads(table: Tensor, work: Callable[[Sequence[Tile]], Result]) -> list[Result]:
    """`work` on the tiles of consecutive parts of a table, one part per thread of a processor.

    The results come in the order of the parts. A tile is too small to be shared by threads: the
    operations on it would spend more time waiting for each other than computing.
    """
    all_tiles = list(tiles(table))
    threads = torch.get_num_threads()
    is_on_cpu = table.device.type == "cpu"
    count = min(threads, len(all_tiles)) if is_on_cpu else 1
    if count == 1:
        return [work(all_tiles)]
    ends = [len(all_tiles) * i // count for i in range(count + 1)]
    parts = [all_tiles[start:end] for start, end in pairwise(ends)]
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, parts))
    finally:
        # A worker sets its own number, and also that of threads that are started later.
        torch.set_num_threads(threads)


def at(tensor: Tensor, index: Index) -> Tensor:
    """`tensor[index]` for a tensor that may have size 1 on an axis that it does not depend on."""
    places: list[slice | Tensor] = []
    for place, size in zip(index, tensor.shape, strict=True):
        if size > 1:
            places.append(place)
        elif isinstance(place, slice):
            places.append(slice(None))
        else:
            places.append(torch.zeros_like(place))
    return tensor[tuple(places)]


def sum_at(factors: Sequence[Tensor], index: Index) -> Tensor:
    """Sum of the factors' cells at `index`."""
    return reduce(torch.add, (at(factor, index) for factor in factors))


def along(vector: Tensor, axis: int, sites: int) -> Tensor:
    """A vector over axis `axis` of `sites`, shaped to broadcast over the others."""
    shape = [1] * sites
    shape[axis] = -1
    return vector.reshape(shape)


def contexts(tables: Tables, t: int) -> Tensor:
    """A float64 zero for every context of site t, the block's shape with size 1 at axis t."""
    shape = list(tables.shape)
    shape[t] = 1
    return torch.zeros(shape, dtype=torch.float64, device=tables.log_q[0].device)
