"""Row and column sums of a rule over a pair's two tables, in one read of them on a GPU.

The cells are those of `unmask.joints.triton.pair_form`. A block of them stays in registers while it is summed along both axes;
the partial sums of blocks are added in float64, always in the same order, so that a run repeats itself to the last bit.
On a CPU the same sums stream out of `unmask.joints.tiles`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unmask.joints.triton.pair_form import PairForm

ROWS, COLUMNS, SLAB, WARPS = 512, 128, 4, 4
"""Cells of one program: ROWS x COLUMNS, SLAB rows at a time."""


@dataclass(frozen=True)
class PairSums:
    """Over y for each x (rows) and over x for each y (columns), in float64.

    mass: of exp(r - shift), or of r^2 with `square`; cross, where asked for: of B r (rows) and of A r (columns).
    """

    row_mass: Tensor
    column_mass: Tensor
    row_cross: Tensor
    column_cross: Tensor


def pair_sums(
    log_a: Tensor, log_b: Tensor, form: PairForm, shift: float = 0.0, cross: bool = False, square: bool = False
) -> PairSums:
    """One read of the tables, which are contiguous float32 of one shape."""
    n, m = log_a.shape
    blocks = (triton.cdiv(n, ROWS), triton.cdiv(m, COLUMNS))
    kinds = 2 if cross else 1
    row_parts = log_a.new_empty((kinds, blocks[1], n))
    column_parts = log_a.new_empty((kinds, blocks[0], m))
    second = form.second or form.first
    below = form.below or (form.first.f, form.first.e)
    _block_sums[(blocks[1], blocks[0])](
        log_a, log_b, form.first.f, form.first.e, second.f, second.e, below[0], below[1],
        row_parts, column_parts, shift, n, m, blocks[0], blocks[1],
        A1=form.first.a, B1=form.first.b, A2=second.a, B2=second.b,
        TWO=form.second is not None, BELOW=form.below is not None, CROSS=cross, SQUARE=square,
        ROWS=ROWS, COLUMNS=COLUMNS, SLAB=SLAB, num_warps=WARPS,
    )  # fmt: skip
    rows, columns = row_parts.sum(1, dtype=torch.float64), column_parts.sum(1, dtype=torch.float64)
    return PairSums(rows[0], columns[0], rows[-1], columns[-1])


@triton.jit
def _log_add(p, q):
    high = tl.maximum(p, q)
    return high + 0.6931471805599453 * tl.log2(1.0 + tl.exp(-tl.abs(p - q)))


@triton.jit
def _linear(log_a, log_b, f, e, A: tl.constexpr, B: tl.constexpr):
    value = f[:, None] + e[None, :]
    if A == 1:
        value += log_a
    if A == -1:
        value -= log_a
    if B == 1:
        value += log_b
    if B == -1:
        value -= log_b
    return value


@triton.jit
def _block_sums(
    log_a, log_b, f1, e1, f2, e2, g, h, row_parts, column_parts, shift, n, m, row_blocks, column_blocks,
    A1: tl.constexpr, B1: tl.constexpr, A2: tl.constexpr, B2: tl.constexpr, TWO: tl.constexpr, BELOW: tl.constexpr,
    CROSS: tl.constexpr, SQUARE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SLAB: tl.constexpr,
):  # fmt: skip
    column_block, row_block = tl.program_id(0), tl.program_id(1)
    y = column_block * COLUMNS + tl.arange(0, COLUMNS)
    in_y = y < m
    ey1 = tl.load(e1 + y, in_y, 0.0)
    ey2 = tl.load(e2 + y, in_y, 0.0)
    hy = tl.load(h + y, in_y, 0.0)
    mass_y = tl.zeros((SLAB, COLUMNS), tl.float32)
    cross_y = tl.zeros((SLAB, COLUMNS), tl.float32)
    for slab in range(0, ROWS, SLAB):
        x = row_block * ROWS + slab + tl.arange(0, SLAB)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        la = tl.load(log_a + cell, inside, 0.0)
        lb = tl.load(log_b + cell, inside, 0.0)
        r = _linear(la, lb, tl.load(f1 + x, in_x, 0.0), ey1, A1, B1)
        if TWO:
            r = _log_add(r, _linear(la, lb, tl.load(f2 + x, in_x, 0.0), ey2, A2, B2))
        if BELOW:
            r -= _log_add(tl.load(g + x, in_x, 0.0)[:, None], hy[None, :])
        if SQUARE:
            mass = tl.where(inside, r * r, 0.0)
        else:
            mass = tl.where(inside, tl.exp(r - shift), 0.0)
        mass_y += mass
        tl.store(row_parts + column_block * n + x, tl.sum(mass, 1), in_x)
        if CROSS:
            cross_y += tl.where(inside, tl.exp(la) * r, 0.0)
            own_x = tl.sum(tl.where(inside, tl.exp(lb) * r, 0.0), 1)
            tl.store(row_parts + column_blocks * n + column_block * n + x, own_x, in_x)
    tl.store(column_parts + row_block * m + y, tl.sum(mass_y, 0), in_y)
    if CROSS:
        tl.store(column_parts + row_blocks * m + row_block * m + y, tl.sum(cross_y, 0), in_y)
