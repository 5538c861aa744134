"""Cells of a block's tables, a tile at a time, and rules over them, with the form in which a
GPU reads the rule of a pair.

A tensor over a block has one axis per site; one that does not depend on a site has size 1 on
that axis. Everything that is summed over a block streams through memory in tiles of its first
axis.

The two simplest rules are a sum of factors (`SumRule`) and the mean of joints that are such
sums (`MeanRule`). One GPU program sums the cells of every rule that has the form (`PairForm`)

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),
            Li = a_i log A + b_i log B + f_i[x] + e_i[y].

L2 and the denominator are absent in most. If there is an L2, it is over B alone, and L1 over A
alone: the near-compatible family has L1 = log A + log of the weight of y, L2 = log B + log of
the weight of x, and a denominator; the mean of the two chains has L1 and L2 and no denominator.
A rule that has this form says so in a method `pair_form(tables)`; any other is read from tiles.

A `Stack` holds tables of several pairs for one launch: matrices of one shape anywhere in a
device's memory, at offsets from the first. So tables are not copied together, and a pair that
has converged leaves by a shorter list of places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, groupby
from math import gcd, log, prod
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.batching import on_device, triton_wanted
from unmask.tables.unary import Tables

Result = TypeVar("Result")
Tile = tuple[slice, ...]
Index = tuple[slice | Tensor, ...]
"""One entry per axis: all slices (a tile, axes kept), or all integer vectors of one length
(single cells).
"""
Rule = Callable[[Index], Tensor]  # Unnormalised log-probabilities of the cells at an index

CELLS_ON_CPU = 1 << 18  # The few arrays of a tile stay in the processor's cache
CELLS_ON_GPU = 1 << 24  # Enough to hide the launches of the many small steps of a tile


def tiles(table: Tensor) -> Iterator[Tile]:
    """Indices that cover a table in runs of its first axis, as many cells each as suit its
    device, but at least one row.
    """
    rows = max(
        1,
        (CELLS_ON_CPU if table.device.type == "cpu" else CELLS_ON_GPU)
        // max(1, prod(table.shape[1:])),
    )
    rest = tuple(slice(0, n) for n in table.shape[1:])
    for start in range(0, len(table), rows):
        yield (slice(start, min(start + rows, len(table))), *rest)


def by_threads(table: Tensor, work: Callable[[Sequence[Tile]], Result]) -> list[Result]:
    """`work` on the tiles of consecutive parts of a table, one part per thread of a processor;
    the results in order.

    A tile is too small to be shared: the operations on it would spend more time waiting for
    each other than computing.
    """
    all_tiles, threads = list(tiles(table)), torch.get_num_threads()
    count = min(threads, len(all_tiles)) if table.device.type == "cpu" else 1
    if count == 1:
        return [work(all_tiles)]
    ends = [len(all_tiles) * i // count for i in range(count + 1)]
    parts = [all_tiles[start:end] for start, end in zip(ends, ends[1:], strict=False)]
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
    return reduce(torch.add, (at(factor, index) for factor in factors))


def along(vector: Tensor, axis: int, sites: int) -> Tensor:
    """A vector over axis `axis` of `sites`, shaped to broadcast over the others."""
    return vector.reshape([-1 if s == axis else 1 for s in range(sites)])


def contexts(tables: Tables, t: int) -> Tensor:
    """A float64 zero for every context of site t, the block's shape with size 1 at axis t."""
    shape = [1 if s == t else n for s, n in enumerate(tables.shape)]
    return torch.zeros(shape, dtype=torch.float64, device=tables.log_q[0].device)


ALIGNED = (
    16  # Cells whose multiples all matrices begin at, so that a program may load several at once
)
CHANGING = ("begins", "n", "m")
"""Arguments of programs whose values change from launch to launch: one program is compiled for
all.
"""


@dataclass(frozen=True)
class Stack:
    """For each pair a matrix; `places`: how many cells after the first matrix it begins;
    `begins`: its first row, and at the end how many rows there are.
    """

    matrices: tuple[Float[Tensor, "n m"], ...]
    places: Int[Tensor, " pairs"]
    begins: Int[Tensor, " pairs_and_one"]
    rows: int

    @staticmethod
    def of(matrices: Sequence[Tensor], owner: Sequence[int] | None = None) -> Stack:
        """A stack of matrices; `owner`: which matrix each row reads, in rising order; by
        default row i reads matrix i.
        """
        first, rows = matrices[0], range(len(matrices)) if owner is None else owner
        readers = [(block, len(list(of_block))) for block, of_block in groupby(rows)]
        places = [
            (matrices[block].data_ptr() - first.data_ptr()) // first.element_size()
            for block, _ in readers
        ]
        begins = list(accumulate((count for _, count in readers), initial=0))
        numbers = on_device([*places, *begins], first.device)
        return Stack(tuple(matrices), numbers[: len(places)], numbers[len(places) :], len(rows))

    @property
    def first(self) -> Float[Tensor, "n m"]:
        return self.matrices[0]

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    @property
    def known(self) -> dict[str, int]:
        """Constants that a program is compiled with: the multiples that matrices begin at, and
        that their lines are of.
        """
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
    """`count` matrices of zeros in one tensor, each of which can be in a stack."""
    cells = shape[0] * shape[1]
    return like.new_zeros((count, -(-cells // ALIGNED) * ALIGNED))[:, :cells].unflatten(1, shape)


@dataclass(frozen=True)
class Linear:
    """a log A + b log B + f[x] + e[y]; a and b are -1, 0 or 1. Several pairs have a row each in
    f and e; None is zero.
    """

    a: int
    b: int
    f: Tensor | None = None
    e: Tensor | None = None


@dataclass(frozen=True)
class PairForm:
    """log(exp first + exp second) - log(exp g[x] + exp h[y]); `second` and `below` = (g, h) may
    be absent.

    Where there is a `second`, it is over log B, and `first` over log A.
    """

    first: Linear
    second: Linear | None = None
    below: tuple[Tensor, Tensor] | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that forms of one launch share: all except the numbers."""
        parts = (self.first, self.second) if self.second else (self.first,)
        return (
            self.below is None,
            *((part.a, part.b, part.f is None, part.e is None) for part in parts),
        )

    def along(
        self, t: int, fixed: Int[Tensor, "pairs 1"], log_a: Tensor, log_b: Tensor
    ) -> Float[Tensor, "pairs n"]:
        """The cells along site t of several pairs, the other site at `fixed`; `log_a`, `log_b`:
        the tables there.
        """

        def sides(f: Tensor | None, e: Tensor | None) -> list[Tensor]:
            both = ((f, t == 0), (e, t == 1))
            return [
                torch.zeros_like(log_a[:, :1]) if v is None else v if whole else v.gather(1, fixed)
                for v, whole in both
            ]

        def linear(part: Linear) -> Tensor:
            f, e = sides(part.f, part.e)
            return sum(
                (
                    log if power > 0 else -log
                    for power, log in ((part.a, log_a), (part.b, log_b))
                    if power
                ),
                f + e,
            )

        cells = linear(self.first)
        if self.second is not None:
            cells = torch.logaddexp(cells, linear(self.second))
        return cells if self.below is None else cells - torch.logaddexp(*sides(*self.below))


def triton_serves(*blocks: Tables) -> bool:
    """Whether the tables are those of pairs in float32 on a GPU that Triton compiles for."""
    if not triton_wanted(blocks[0].log_q[0]):
        return False
    return all(
        tables.sites == 2 and all(q.dtype == torch.float32 and aligned(q) for q in tables.log_q)
        for tables in blocks
    )


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None if it has none."""
    form: Callable[[Tables], PairForm | None] = getattr(rule, "pair_form", lambda _: None)
    return form(tables)


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
        halves = [
            part.linear(tables, -z - log(2)) for part, z in zip(self.parts, self.log_z, strict=True)
        ]
        over = {(half.a, half.b): half for half in halves if half is not None}
        return (
            PairForm(over[1, 0], over[0, 1])
            if len(halves) == 2 and over.keys() == {(1, 0), (0, 1)}
            else None
        )
