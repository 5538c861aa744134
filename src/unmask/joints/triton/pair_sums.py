"""Row and column sums of rules over the tables of pairs, in one read of them on a GPU.

The cells are those of `unmask.joints.rules`. A block of them stays in registers while it is summed along both axes;
the partial sums of blocks are added in float64, always in the same order, so that a run repeats itself to the last bit. A
launch takes several pairs, each with its own numbers in a form of one kind.
On a CPU the same sums stream out of `unmask.joints.tiles`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.rules import CHANGING, PairForm, Stack
from unmask.joints.triton.arithmetic import exp, log_add, weighed

ROWS, COLUMNS, SLAB, WARPS = 512, 128, 4, 4
"""Cells of one program: ROWS x COLUMNS, SLAB rows at a time."""


@dataclass(frozen=True)
class PairSums:
    """Of each pair, a row each: over y for each x (rows) and over x for each y (columns), in float64.

    mass: of exp(r - shift), or of r^2 with `square`; cross, where asked for: of B r (rows) and of A r (columns).
    """

    row_mass: Float[Tensor, "pairs n"]
    column_mass: Float[Tensor, "pairs m"]
    row_cross: Float[Tensor, "pairs n"]
    column_cross: Float[Tensor, "pairs m"]


def pair_sums(
    a: Stack, b: Stack, form: PairForm, shift: Tensor | None = None, cross: bool = False, square: bool = False
) -> PairSums:
    """One read of the tables, which are float32. `form` and `shift` have a row for each pair."""
    (n, m), pairs = a.shape, len(a)
    blocks = (triton.cdiv(n, ROWS), triton.cdiv(m, COLUMNS))
    kinds = 2 if cross else 1
    row_parts = a.first.new_empty((kinds, pairs, blocks[1], n))
    column_parts = a.first.new_empty((kinds, pairs, blocks[0], m))
    nothing = a.first.new_zeros(pairs * max(n, m))
    second = form.second or form.first
    vectors = (form.first.f, form.first.e, second.f, second.e, *(form.below or (None, None)), shift)
    _block_sums[(blocks[1], blocks[0], pairs)](
        *a.read_with(b), *(nothing if vector is None else vector.to(torch.float32).contiguous() for vector in vectors),
        row_parts, column_parts, float(form.first.a), float(form.first.b),
        TWO=form.second is not None, BELOW=form.below is not None, CROSS=cross, SQUARE=square,
        ROWS=ROWS, COLUMNS=COLUMNS, SLAB=SLAB, num_warps=WARPS, **a.known,
    )  # fmt: skip
    rows, columns = row_parts.sum(2, dtype=torch.float64), column_parts.sum(2, dtype=torch.float64)
    return PairSums(rows[0], columns[0], rows[-1], columns[-1])


@triton.jit
def _times(weight, log):
    """weight * log, and 0 where the weight is 0: the logarithm of a token that the model rules out is -inf."""
    return tl.where(weight == 0.0, 0.0, weight * log)


@triton.jit(do_not_specialize=[*CHANGING, "power_a", "power_b"])
def _block_sums(
    log_a, log_b, places_a, places_b, begins, n, m, f1, e1, f2, e2, g, h, shifts, row_parts, column_parts, power_a, power_b,
    TWO: tl.constexpr, BELOW: tl.constexpr, CROSS: tl.constexpr, SQUARE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SLAB: tl.constexpr, ALIGNED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    column_block, row_block, pair = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    column_blocks, row_blocks, pairs = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2).to(tl.int64)
    m = m // EVEN * EVEN
    at_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    at_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
    shift = tl.load(shifts + pair)
    y = column_block * COLUMNS + tl.arange(0, COLUMNS)
    in_y = y < m
    ey1 = tl.load(e1 + pair * m + y, in_y, 0.0)
    ey2 = tl.load(e2 + pair * m + y, in_y, 0.0)
    hy = tl.load(h + pair * m + y, in_y, 0.0)
    own_rows = row_parts + (pair * column_blocks + column_block) * n
    own_columns = column_parts + (pair * row_blocks + row_block) * m
    mass_y = tl.zeros((SLAB, COLUMNS), tl.float32)
    cross_y = tl.zeros((SLAB, COLUMNS), tl.float32)
    for slab in range(0, tl.minimum(ROWS, n - row_block * ROWS), SLAB):
        x = row_block * ROWS + slab + tl.arange(0, SLAB)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        la = tl.load(log_a + at_a + cell, inside, float("-inf"))
        lb = tl.load(log_b + at_b + cell, inside, float("-inf"))
        r = tl.load(f1 + pair * n + x, in_x, 0.0)[:, None] + ey1[None, :]
        if TWO:
            r = log_add(r + la, tl.load(f2 + pair * n + x, in_x, 0.0)[:, None] + ey2[None, :] + lb)
        else:
            r += _times(power_a, la) + _times(power_b, lb)
        if BELOW:
            r -= log_add(tl.load(g + pair * n + x, in_x, 0.0)[:, None], hy[None, :])
        if SQUARE:
            mass = tl.where(inside, r * r, 0.0)
        else:
            mass = tl.where(inside, exp(r - shift), 0.0)
        mass_y += mass
        tl.store(own_rows + x, tl.sum(mass, 1), in_x)
        if CROSS:
            cross_y += weighed(la, r)
            own_x = tl.sum(weighed(lb, r), 1)
            tl.store(own_rows + pairs * column_blocks * n + x, own_x, in_x)
    tl.store(own_columns + y, tl.sum(mass_y, 0), in_y)
    if CROSS:
        tl.store(own_columns + pairs * row_blocks * m + y, tl.sum(cross_y, 0), in_y)
