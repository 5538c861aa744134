"""Sums over a pair's two tables alone, whatever the joint, in one read of them on a GPU.

    rows       over y for each x: of A, B, A B, B log B, A / B
    columns    over x for each y: of A, B, A B, A log A, A / B

Partial sums of blocks of cells are added in float64 in a fixed order, as in `unmask.joints.triton.pair_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.rules import CHANGING, Stack
from unmask.joints.triton.arithmetic import exp, weighed
from unmask.tables.unary import Tables

ROWS, COLUMNS, SLAB, WARPS = 256, 128, 4, 4
"""Cells of one program: ROWS x COLUMNS, SLAB rows at a time."""


@dataclass(frozen=True)
class Sums:
    """Along one axis, in float64; `information` is sum q log q of the table whose contexts these are."""

    a: Float[Tensor, " n"]
    b: Float[Tensor, " n"]
    both: Float[Tensor, " n"]
    information: Float[Tensor, " n"]
    ratio: Float[Tensor, " n"]


@dataclass(frozen=True)
class TableSums:
    """Over y for each x (rows), and over x for each y (columns)."""

    rows: Sums
    columns: Sums


_KEPT: WeakKeyDictionary[Tables, TableSums] = WeakKeyDictionary()


def table_sums(blocks: Sequence[Tables]) -> list[TableSums]:
    """Of the tables of pairs of one shape, those of all that were not summed before in one launch."""
    if missing := [tables for tables in dict.fromkeys(blocks) if tables not in _KEPT]:
        _KEPT.update(zip(missing, _summed(missing), strict=True))
    return [_KEPT[tables] for tables in blocks]


def _summed(blocks: Sequence[Tables]) -> list[TableSums]:
    a, b = (Stack.of([tables.log_q[t] for tables in blocks]) for t in range(2))
    n, m = a.shape
    across, down = triton.cdiv(m, COLUMNS), triton.cdiv(n, ROWS)
    row_parts, column_parts = a.first.new_empty((5, len(a), across, n)), a.first.new_empty((5, len(a), down, m))
    _table_sums[(across, down, len(a))](
        *a.read_with(b), row_parts, column_parts, ROWS=ROWS, COLUMNS=COLUMNS, SLAB=SLAB, num_warps=WARPS, **a.known
    )  # fmt: skip
    rows, columns = (parts.sum(2, dtype=torch.float64).unbind(1) for parts in (row_parts, column_parts))
    return [TableSums(Sums(*of_rows), Sums(*of_columns)) for of_rows, of_columns in zip(rows, columns, strict=True)]


@triton.jit(do_not_specialize=CHANGING)
def _table_sums(
    log_a, log_b, places_a, places_b, begins, n, m, row_parts, column_parts,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SLAB: tl.constexpr, ALIGNED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    across, down, pair = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    pairs = tl.num_programs(2).to(tl.int64)
    at_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    at_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
    m = m // EVEN * EVEN
    y = across * COLUMNS + tl.arange(0, COLUMNS)
    in_y = y < m
    own_rows = row_parts + (pair * tl.num_programs(0) + across) * n
    next_rows = pairs * tl.num_programs(0) * n
    own_columns = column_parts + (pair * tl.num_programs(1) + down) * m + y
    next_columns = pairs * tl.num_programs(1) * m
    sum_a = tl.zeros((SLAB, COLUMNS), tl.float32)
    sum_b = tl.zeros((SLAB, COLUMNS), tl.float32)
    sum_both = tl.zeros((SLAB, COLUMNS), tl.float32)
    sum_log = tl.zeros((SLAB, COLUMNS), tl.float32)
    sum_ratio = tl.zeros((SLAB, COLUMNS), tl.float32)
    for slab in range(0, tl.minimum(ROWS, n - down * ROWS), SLAB):
        x = down * ROWS + slab + tl.arange(0, SLAB)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        la = tl.load(log_a + at_a + cell, inside, float("-inf"))
        lb = tl.load(log_b + at_b + cell, inside, float("-inf"))
        a, b = exp(la), exp(lb)
        ratio = tl.where(inside, exp(la - lb), 0.0)
        sum_a += a
        sum_b += b
        sum_both += a * b
        sum_log += weighed(la, la)
        sum_ratio += ratio
        tl.store(own_rows + x, tl.sum(a, 1), in_x)
        tl.store(own_rows + next_rows + x, tl.sum(b, 1), in_x)
        tl.store(own_rows + 2 * next_rows + x, tl.sum(a * b, 1), in_x)
        tl.store(own_rows + 3 * next_rows + x, tl.sum(weighed(lb, lb), 1), in_x)
        tl.store(own_rows + 4 * next_rows + x, tl.sum(ratio, 1), in_x)
    tl.store(own_columns, tl.sum(sum_a, 0), in_y)
    tl.store(own_columns + next_columns, tl.sum(sum_b, 0), in_y)
    tl.store(own_columns + 2 * next_columns, tl.sum(sum_both, 0), in_y)
    tl.store(own_columns + 3 * next_columns, tl.sum(sum_log, 0), in_y)
    tl.store(own_columns + 4 * next_columns, tl.sum(sum_ratio, 0), in_y)
