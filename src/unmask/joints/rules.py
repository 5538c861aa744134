"""Cells of a block's tables, read in tiles, and rules over them.

A tensor over a block has one axis per site. A tensor that does not depend on a site has size 1 on
that axis. Sums over a block are taken over tiles of its first axis, so that nothing of the
tables' size is made.

The two simplest rules are a sum of factors (`SumRule`) and the mean of joints that are such
sums (`MeanRule`).

On a GPU, one program sums the cells of every rule of a pair that has the form (`PairForm`)

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),
            Li = a_i log A + b_i log B + f_i[x] + e_i[y].

Most rules have neither L2 nor a denominator. If there is an L2, it is over B alone, and L1 is
over A alone. Two kinds of rules have an L2:

- the near-compatible family: L1 = log A + log of the weight of y, L2 = log B + log of the weight
  of x, and a denominator;
- the mean of the two chains: L1 and L2, and no denominator.

A rule that has this form says so in a method `pair_form(tables)`. Any other is read from tiles.

A `Stack` holds tables of several pairs for one launch. They are matrices of one shape, anywhere
in a device's memory, at offsets from the first. So tables are not copied together, and a pair
that has converged leaves by a shorter list of places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, groupby, pairwise
from math import ceil, gcd, log, prod
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.batching import on_device, triton_wanted
from unmask.tables.unary import Tables

Result = TypeVar("Result")
Tile = tuple[slice, ...]
Index = tuple[slice | Tensor, ...]
"""One entry per axis. All are slices (a tile, whose axes are kept), or all are integer vectors of
one length (single cells).
"""
Rule = Callable[[Index], Tensor]  # Unnormalised log-probabilities of the cells at an index

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


ALIGNED = 16
"""Cells. Every matrix of a stack begins at a multiple of it, so that a program may load several
cells at once.
"""
CHANGING = ("begins", "n", "m")
"""Arguments of programs whose values change from launch to launch. One program is compiled for
all their values.
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
        # (number of a matrix, how many rows read it)
        readers = [(number, len(list(rows))) for number, rows in groupby(owners)]
        places = [
            (matrices[number].data_ptr() - first.data_ptr()) // first.element_size()
            for number, _ in readers
        ]
        begins = list(accumulate((count for _, count in readers), initial=0))
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
        EVEN      every line of a matrix has a multiple of it
        """
        return {"ALIGNED": ALIGNED, "EVEN": gcd(ALIGNED, self.shape[1])}

    def read_with(self, other: Stack) -> tuple[Tensor | int, ...]:
        """The first arguments of a program that reads this stack beside another."""
        return (self.first, other.first, self.places, other.places, self.begins, *self.shape)

    def __len__(self) -> int:
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


@dataclass(frozen=True)
class Linear:
    """a log A + b log B + f[x] + e[y] over the cells [x, y] of a pair.

    a, b      -1, 0 or 1
    f, e      vectors over x and over y, or one row of each for each of several pairs; None is zero
    """

    a: int
    b: int
    f: Tensor | None = None
    e: Tensor | None = None

    @staticmethod
    def stacked(parts: Sequence[Linear]) -> Linear:
        """The parts of several pairs, of one a and b, as one with a row for each pair."""
        return Linear(
            a=parts[0].a,
            b=parts[0].b,
            f=_stacked_vectors([part.f for part in parts]),
            e=_stacked_vectors([part.e for part in parts]),
        )


def _stacked_vectors(vectors: Sequence[Tensor | None]) -> Tensor | None:
    """One row for each vector. All are None, or none is."""
    given = [vector for vector in vectors if vector is not None]
    if not given:
        return None
    return torch.stack(given)


@dataclass(frozen=True)
class PairForm:
    """log(exp first + exp second) - log(exp g[x] + exp h[y]), the cells [x, y] of a pair.

    first     over log A alone if there is a `second`
    second    None, or over log B alone
    below     None, or (g, h)
    """

    first: Linear
    second: Linear | None = None
    below: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def stacked(forms: Sequence[PairForm]) -> PairForm:
        """The forms of several pairs, all of one `kind`, as one with a row for each pair."""
        seconds = [form.second for form in forms if form.second is not None]
        belows = [form.below for form in forms if form.below is not None]
        second = None
        if seconds:
            second = Linear.stacked(seconds)
        below = None
        if belows:
            below = (torch.stack([g for g, _ in belows]), torch.stack([h for _, h in belows]))
        return PairForm(
            first=Linear.stacked([form.first for form in forms]),
            second=second,
            below=below,
        )

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that forms of one launch share: all except the numbers."""
        parts = [self.first]
        if self.second is not None:
            parts.append(self.second)
        of_parts = [(part.a, part.b, part.f is None, part.e is None) for part in parts]
        return (self.below is None, *of_parts)

    def along(
        self, t: int, fixed: Int[Tensor, "pairs 1"], log_a: Tensor, log_b: Tensor
    ) -> Float[Tensor, "pairs n"]:
        """The cells along site t of several pairs, where the other site has the token `fixed`.

        log_a     log A at these cells, shape (pairs, n)
        log_b     log B at these cells, shape (pairs, n)
        """

        def here(vector: Tensor | None, site: int) -> Tensor:
            """A vector over the tokens of `site`, at these cells: shape (pairs, n or 1)."""
            if vector is None:
                return torch.zeros_like(log_a[:, :1])
            if site == t:
                return vector
            return vector.gather(1, fixed)

        def linear(part: Linear) -> Tensor:
            cells = here(part.f, 0) + here(part.e, 1)
            for power, log_q in ((part.a, log_a), (part.b, log_b)):
                if power > 0:
                    cells = cells + log_q
                elif power < 0:
                    cells = cells - log_q
                # A power of 0 adds nothing, also where log_q is -inf.
            return cells

        cells = linear(self.first)
        if self.second is not None:
            cells = torch.logaddexp(cells, linear(self.second))
        if self.below is not None:
            g, h = self.below
            cells = cells - torch.logaddexp(here(g, 0), here(h, 1))
        return cells


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


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None if it has none."""
    form_over: Callable[[Tables], PairForm | None] | None = getattr(rule, "pair_form", None)
    if form_over is None:
        return None
    return form_over(tables)


@dataclass(frozen=True, eq=False)
class SumRule:
    """r(x) = sum of factors, each a tensor with size 1 on the axes that it does not depend on."""

    factors: tuple[Tensor, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        return sum_at(self.factors, index)

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The sum in the form that a GPU reads; None if some factor is no table and no vector."""
        first = self.linear(tables)
        if first is None:
            return None
        return PairForm(first)

    def linear(self, tables: Tables, constant: float = 0.0) -> Linear | None:
        """The sum plus a constant, as tables and vectors of a pair.

        None if a factor is neither one of the tables nor a vector, or if a table occurs twice.
        """
        log_a, log_b = tables.log_q
        a = b = 0
        f = log_a.new_full((log_a.shape[0],), constant)
        e = log_a.new_zeros(log_a.shape[1])
        for factor in self.factors:
            if factor is log_a:
                a += 1
            elif factor is log_b:
                b += 1
            elif factor.shape[1] == 1:
                f += factor.flatten()
            elif factor.shape[0] == 1:
                e += factor.flatten()
            else:
                return None
        if max(a, b) > 1:
            return None
        return Linear(a=a, b=b, f=f, e=e)


@dataclass(frozen=True, eq=False)
class MeanRule:
    """r(x) = log of the mean of exp(part(x) - log_z) over parts with their normalisers."""

    parts: tuple[SumRule, ...]
    log_z: tuple[float, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        log_probs = [
            part(index) - log_z for part, log_z in zip(self.parts, self.log_z, strict=True)
        ]
        return reduce(torch.logaddexp, log_probs) - log(len(log_probs))

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The mean of two parts in the form that a GPU reads; None for any other mean.

        One part must be over A alone, the other over B alone, beside vectors.
        """
        if len(self.parts) != 2:
            return None
        over_a = over_b = None
        for part, log_z in zip(self.parts, self.log_z, strict=True):
            half = part.linear(tables, -log_z - log(2))
            if half is None:
                return None
            if (half.a, half.b) == (1, 0):
                over_a = half
            elif (half.a, half.b) == (0, 1):
                over_b = half
        if over_a is None or over_b is None:
            return None
        return PairForm(first=over_a, second=over_b)
