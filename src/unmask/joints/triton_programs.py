"""The reads of the tables of pairs on a GPU: sums over the tables alone, of a rule, and of a
sweep. A CPU sums tiles.

    table_sums    over y for each x: of A, B, A B, B log B, A / B;
                  over x for each y: of A, B, A B, A log A, A / B
    pair_sums     of a rule (`unmask.joints.rules`) along both axes
    row_flows     sum_y k (A into_v + added_u B scale_v),  sum_y k B out_v,
                  k = 1 / (scale_u + scale_v) (`unmask.joints.sweeps`)
    column_flows  sum_x k (B into_u + added_v A scale_u),  sum_x k A out_u

A program keeps a block of cells of both tables in registers while it sums it along both axes,
or for one member of the pair after the other, so that members share the read and the
exponentials. Partial sums of blocks are added in float64 in a fixed order, so that a run
repeats itself to the last bit. A launch takes several pairs, each with its own numbers; a row's
sums do not depend on the other rows. All tables are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.members import Site
from unmask.joints.rules import CHANGING, PairForm, Stack
from unmask.tables.unary import Tables

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-3e38)
SMALLEST = tl.constexpr(
    1e-37
)  # The lowest number, which differs from -inf, and the smallest that does not count as zero
TABLE_PROGRAM = {"ROWS": 256, "COLUMNS": 128, "SLAB": 4, "num_warps": 4}
RULE_PROGRAM = {"ROWS": 512, "COLUMNS": 128, "SLAB": 4, "num_warps": 4}
ROW_PROGRAM = {"TALL": 2, "WIDE": 1024, "num_warps": 4}
COLUMN_PROGRAM = {"TALL": 128, "WIDE": 32, "num_warps": 4}
"""Cells of one program: ROWS x COLUMNS, SLAB rows at a time, or TALL x WIDE."""


@triton.jit
def exp(x):
    """e^x as 2^(x log2 e), one operation beside the product; below 1e-38 it is zero."""
    return tl.exp2(x * LOG2_E)


@triton.jit
def weighed(log_q, r):
    """q r, which is 0 where q = 0, also for an r of -inf, and -inf for that r elsewhere,
    however small q is.
    """
    return tl.where(log_q == float("-inf"), 0.0, tl.maximum(exp(log_q), SMALLEST) * r)


@triton.jit
def reciprocal(x):
    """1 / x of a positive x, to 3e-7 of itself."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def log_add(p, q):
    """log(e^p + e^q) = max + log(1 + t), t = e^-|p - q|; log(1 + t) / t is a polynomial here,
    within 1.4e-7 for t from 0 to 1.

    Of two zeros it is -inf.
    """
    t = exp(-tl.abs(tl.maximum(p, LOWEST) - q))
    s = 0.036084711 + t * -0.0064526298
    s = 0.16764854 + t * (-0.095323034 + t * s)
    s = 0.3317984 + t * (-0.2407312 + t * s)
    s = 0.9999964 + t * (-0.49987406 + t * s)
    return tl.maximum(p, q) + t * s


@dataclass(frozen=True)
class Sums:
    """Along one axis, in float64; `information` is sum q log q of the table whose contexts
    these are.
    """

    a: Float[Tensor, " n"]
    b: Float[Tensor, " n"]
    both: Float[Tensor, " n"]
    information: Float[Tensor, " n"]
    ratio: Float[Tensor, " n"]


class TableSums(NamedTuple):
    """Over y for each x (rows), and over x for each y (columns)."""

    rows: Sums
    columns: Sums


_SUMMED: WeakKeyDictionary[Tables, TableSums] = WeakKeyDictionary()


def table_sums(blocks: Sequence[Tables]) -> list[TableSums]:
    """Of the tables of pairs of one shape, those of all that were not summed before in one
    launch.
    """
    if missing := [tables for tables in dict.fromkeys(blocks) if tables not in _SUMMED]:
        a, b = (Stack.of([tables.log_q[t] for tables in missing]) for t in range(2))
        n, m = a.shape
        across, down = (
            triton.cdiv(m, TABLE_PROGRAM["COLUMNS"]),
            triton.cdiv(n, TABLE_PROGRAM["ROWS"]),
        )
        row_parts, column_parts = (
            a.first.new_empty((5, len(a), across, n)),
            a.first.new_empty((5, len(a), down, m)),
        )
        _table_sums[(across, down, len(a))](
            *a.read_with(b), row_parts, column_parts, **TABLE_PROGRAM, **a.known
        )
        rows, columns = (
            parts.sum(2, dtype=torch.float64).unbind(1) for parts in (row_parts, column_parts)
        )
        for tables, of_rows, of_columns in zip(missing, rows, columns, strict=True):
            _SUMMED[tables] = TableSums(Sums(*of_rows), Sums(*of_columns))
    return [_SUMMED[tables] for tables in blocks]


@triton.jit(do_not_specialize=CHANGING)
def _table_sums(
    log_a,
    log_b,
    places_a,
    places_b,
    begins,
    n,
    m,
    row_parts,
    column_parts,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SLAB: tl.constexpr,
    ALIGNED: tl.constexpr,
    EVEN: tl.constexpr,
):
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


@dataclass(frozen=True)
class PairSums:
    """Of each pair, a row each: over y for each x (rows) and over x for each y (columns), in
    float64.

    mass: of exp(r - shift), or of r^2 with `square`; cross, where asked for: of B r (rows) and
    of A r (columns).
    """

    row_mass: Float[Tensor, "pairs n"]
    column_mass: Float[Tensor, "pairs m"]
    row_cross: Float[Tensor, "pairs n"]
    column_cross: Float[Tensor, "pairs m"]


def pair_sums(
    a: Stack,
    b: Stack,
    form: PairForm,
    shift: Tensor | None = None,
    cross: bool = False,
    square: bool = False,
) -> PairSums:
    """One read of the tables, which are float32. `form` and `shift` have a row for each pair."""
    (n, m), pairs = a.shape, len(a)
    blocks = (triton.cdiv(n, RULE_PROGRAM["ROWS"]), triton.cdiv(m, RULE_PROGRAM["COLUMNS"]))
    kinds = 2 if cross else 1
    row_parts = a.first.new_empty((kinds, pairs, blocks[1], n))
    column_parts = a.first.new_empty((kinds, pairs, blocks[0], m))
    nothing = a.first.new_zeros(pairs * max(n, m))
    second = form.second or form.first
    vectors = (form.first.f, form.first.e, second.f, second.e, *(form.below or (None, None)), shift)
    _block_sums[(blocks[1], blocks[0], pairs)](
        *a.read_with(b),
        *(
            nothing if vector is None else vector.to(torch.float32).contiguous()
            for vector in vectors
        ),
        row_parts,
        column_parts,
        float(form.first.a),
        float(form.first.b),
        TWO=form.second is not None,
        BELOW=form.below is not None,
        CROSS=cross,
        SQUARE=square,
        **RULE_PROGRAM,
        **a.known,
    )
    rows, columns = row_parts.sum(2, dtype=torch.float64), column_parts.sum(2, dtype=torch.float64)
    return PairSums(rows[0], columns[0], rows[-1], columns[-1])


@triton.jit
def _times(weight, log):
    """weight * log, and 0 where the weight is 0: the logarithm of a token that the model rules
    out is -inf.
    """
    return tl.where(weight == 0.0, 0.0, weight * log)


@triton.jit(do_not_specialize=[*CHANGING, "power_a", "power_b"])
def _block_sums(
    log_a,
    log_b,
    places_a,
    places_b,
    begins,
    n,
    m,
    f1,
    e1,
    f2,
    e2,
    g,
    h,
    shifts,
    row_parts,
    column_parts,
    power_a,
    power_b,
    TWO: tl.constexpr,
    BELOW: tl.constexpr,
    CROSS: tl.constexpr,
    SQUARE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SLAB: tl.constexpr,
    ALIGNED: tl.constexpr,
    EVEN: tl.constexpr,
):
    column_block, row_block, pair = (
        tl.program_id(0),
        tl.program_id(1),
        tl.program_id(2).to(tl.int64),
    )
    column_blocks, row_blocks, pairs = (
        tl.num_programs(0),
        tl.num_programs(1),
        tl.num_programs(2).to(tl.int64),
    )
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


def row_flows(a: Stack, b: Stack, u: Site, v: Site, logs: bool = True) -> Float[Tensor, "2 rows n"]:
    """The two sums over y for every x, in float64, for each row; `logs`: whether the tables
    hold logarithms.
    """
    n, m = a.shape
    grid = (triton.cdiv(n, ROW_PROGRAM["TALL"]), triton.cdiv(m, ROW_PROGRAM["WIDE"]), len(a))
    parts = a.first.new_empty((2, a.rows, grid[1], n))
    _row_sums[grid](
        *a.read_with(b), *_single(u, v), parts, a.rows, LOGS=logs, **a.known, **ROW_PROGRAM
    )
    return parts.sum(2, dtype=torch.float64)


def column_flows(
    a: Stack, b: Stack, u: Site, v: Site, logs: bool = True
) -> Float[Tensor, "2 rows m"]:
    """The two sums over x for every y, in float64, for each row."""
    n, m = a.shape
    grid = (triton.cdiv(m, COLUMN_PROGRAM["WIDE"]), triton.cdiv(n, COLUMN_PROGRAM["TALL"]), len(a))
    parts = a.first.new_empty((2, a.rows, grid[1], m))
    _column_sums[grid](
        *a.read_with(b), *_single(v, u), parts, a.rows, LOGS=logs, **a.known, **COLUMN_PROGRAM
    )
    return parts.sum(2, dtype=torch.float64)


def _single(renewed: Site, summed: Site) -> list[Tensor]:
    """The terms of the sums: of the site that is renewed and of the one that is summed over, in
    float32.
    """
    vectors = (renewed.scale, renewed.added, summed.scale, summed.into, summed.out)
    return [vector.to(torch.float32).contiguous() for vector in vectors]


@triton.jit
def _cells(first, place, cell, inside, LOGS: tl.constexpr):
    value = tl.load(first + place + cell, inside, float("-inf") if LOGS else 0.0)
    if LOGS:
        value = exp(value)
    return value


@triton.jit(do_not_specialize=[*CHANGING, "rows"])
def _row_sums(
    log_a,
    log_b,
    places_a,
    places_b,
    begins,
    n,
    m,
    scale_u,
    added_u,
    scale_v,
    into_v,
    out_v,
    parts,
    rows,
    LOGS: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    ALIGNED: tl.constexpr,
    EVEN: tl.constexpr,
):
    pair, block, blocks = tl.program_id(2), tl.program_id(1), tl.num_programs(1)
    m = m // EVEN * EVEN
    x, y = tl.program_id(0) * TALL + tl.arange(0, TALL), block * WIDE + tl.arange(0, WIDE)
    in_x, in_y = x < n, y < m
    inside = in_x[:, None] & in_y[None, :]
    cell = x.to(tl.int64)[:, None] * m + y[None, :]
    a = _cells(log_a, tl.multiple_of(tl.load(places_a + pair), ALIGNED), cell, inside, LOGS)
    b = _cells(log_b, tl.multiple_of(tl.load(places_b + pair), ALIGNED), cell, inside, LOGS)
    for row in range(tl.load(begins + pair), tl.load(begins + pair + 1)):
        ux = tl.load(scale_u + row * n + x, in_x, 1.0)[:, None]
        rx = tl.load(added_u + row * n + x, in_x, 0.0)[:, None]
        vy = tl.load(scale_v + row * m + y, in_y, 1.0)[None, :]
        k = reciprocal(ux + vy)
        kb = k * b
        above = k * a * tl.load(into_v + row * m + y, in_y, 0.0)[None, :] + kb * vy * rx
        below = kb * tl.load(out_v + row * m + y, in_y, 1.0)[None, :]
        own = parts + (row * blocks + block) * n + x
        tl.store(own, tl.sum(above, 1), in_x)
        tl.store(own + rows.to(tl.int64) * blocks * n, tl.sum(below, 1), in_x)


@triton.jit(do_not_specialize=[*CHANGING, "rows"])
def _column_sums(
    log_a,
    log_b,
    places_a,
    places_b,
    begins,
    n,
    m,
    scale_v,
    added_v,
    scale_u,
    into_u,
    out_u,
    parts,
    rows,
    LOGS: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    ALIGNED: tl.constexpr,
    EVEN: tl.constexpr,
):
    pair, block, blocks = tl.program_id(2), tl.program_id(1), tl.num_programs(1)
    m = m // EVEN * EVEN
    x, y = block * TALL + tl.arange(0, TALL), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    in_x, in_y = x < n, y < m
    inside = in_x[:, None] & in_y[None, :]
    cell = x.to(tl.int64)[:, None] * m + y[None, :]
    a = _cells(log_a, tl.multiple_of(tl.load(places_a + pair), ALIGNED), cell, inside, LOGS)
    b = _cells(log_b, tl.multiple_of(tl.load(places_b + pair), ALIGNED), cell, inside, LOGS)
    for row in range(tl.load(begins + pair), tl.load(begins + pair + 1)):
        vy = tl.load(scale_v + row * m + y, in_y, 1.0)[None, :]
        ry = tl.load(added_v + row * m + y, in_y, 0.0)[None, :]
        ux = tl.load(scale_u + row * n + x, in_x, 1.0)[:, None]
        k = reciprocal(ux + vy)
        ka = k * a
        above = k * b * tl.load(into_u + row * n + x, in_x, 0.0)[:, None] + ka * ux * ry
        below = ka * tl.load(out_u + row * n + x, in_x, 1.0)[:, None]
        own = parts + (row * blocks + block) * m + y
        tl.store(own, tl.sum(above, 0), in_y)
        tl.store(own + rows.to(tl.int64) * blocks * m, tl.sum(below, 0), in_y)
