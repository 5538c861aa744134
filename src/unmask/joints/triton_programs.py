"""The reads of the tables of pairs on a GPU: sums over the tables alone, of a rule, and of a
sweep. A CPU sums tiles.

    table_sums    over y for each x: of A, B, A B, B log B, log A - log B;
                  over x for each y: of A, B, A B, A log A, log A - log B
    pair_sums     of a rule (`unmask.joints.rules`) along both axes
    row_flows     sum_y k (A into_v + added_u B scale_v),  sum_y k B out_v,
                  k = 1 / (scale_u + scale_v) (`unmask.joints.sweeps`)
    column_flows  sum_x k (B into_u + added_v A scale_u),  sum_x k A out_u

A program keeps a block of cells of both tables in registers while it sums it along both axes,
or for one member of the pair after the other, so that members share the read and the
exponentials. Partial sums of blocks are added in float64 in a fixed order, so that a run
repeats itself to the last bit. A launch takes several pairs, each with its own numbers; a row's
sums do not depend on the other rows. All tables are float32.

In the programs x and y are numbers of tokens of the two blanks, la and lb cells of the tables
log A and log B, a and b their exponentials. `log_a` and `log_b` are the addresses of the first
tables, and `places_a`, `places_b` and `begins` are those of a `Stack`. `own_...` is an address that
this program writes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.members import Site
from unmask.joints.rules import PairForm
from unmask.joints.stacks import CHANGING, Stack
from unmask.tables.unary import Tables

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-3e38)  # Stands in for -inf, which minus -inf is NaN
SMALLEST = tl.constexpr(1e-37)  # Stands in for a positive number that `exp` returns as zero
# Cells of one program: ROWS x COLUMNS, SLAB rows at a time, or TALL x WIDE.
TABLE_PROGRAM = {"ROWS": 256, "COLUMNS": 128, "SLAB": 4, "num_warps": 4}
RULE_PROGRAM = {"ROWS": 512, "COLUMNS": 128, "SLAB": 4, "num_warps": 4}
ROW_PROGRAM = {"TALL": 2, "WIDE": 1024, "num_warps": 4}
COLUMN_PROGRAM = {"TALL": 128, "WIDE": 32, "num_warps": 4}


@triton.jit
def exp(x):
    """e^x as 2^(x log2 e), one operation beside the product; below 1e-38 it is zero."""
    return tl.exp2(x * LOG2_E)


@triton.jit
def weighed(log_q, r):
    """q r. It is 0 where q = 0, also for an r of -inf. For such an r it is -inf elsewhere, however
    small q is.
    """
    return tl.where(log_q == float("-inf"), 0.0, tl.maximum(exp(log_q), SMALLEST) * r)


@triton.jit
def reciprocal(x):
    """1 / x of a positive x, to 3e-7 of itself."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def log_add(p, q):
    """log(e^p + e^q) = max(p, q) + log(1 + t) with t = e^-|p - q|; -inf if p and q are -inf.

    log(1 + t) / t is a polynomial here, within 1.4e-7 for t from 0 to 1.
    """
    # With a p of -inf and a q of -inf the difference would be NaN
    t = exp(-tl.abs(tl.maximum(p, LOWEST) - q))
    s = 0.036084711 + t * -0.0064526298
    s = 0.16764854 + t * (-0.095323034 + t * s)
    s = 0.3317984 + t * (-0.2407312 + t * s)
    s = 0.9999964 + t * (-0.49987406 + t * s)
    return tl.maximum(p, q) + t * s


@dataclass(frozen=True)
class Sums:
    """For each token of one blank, sums over the tokens of the other, in float64.

    a, b         of A and of B
    both         of A B
    information  of q log q, with q the table that is a distribution over the other blank
    log_ratio    of log A - log B; not finite where a cell is zero
    """

    a: Float[Tensor, " n"]
    b: Float[Tensor, " n"]
    both: Float[Tensor, " n"]
    information: Float[Tensor, " n"]
    log_ratio: Float[Tensor, " n"]


class TableSums(NamedTuple):
    """Of one pair: over y for each x (rows), and over x for each y (columns)."""

    rows: Sums
    columns: Sums


_SUMMED: WeakKeyDictionary[Tables, TableSums] = WeakKeyDictionary()
"""Tables never change, so each is summed once: by the solver that needs it or by the metrics."""


def table_sums(blocks: Sequence[Tables]) -> list[TableSums]:
    """The sums of the tables of pairs of one shape. All pairs that were not summed before share one
    launch.
    """
    missing = [tables for tables in dict.fromkeys(blocks) if tables not in _SUMMED]
    if missing:
        _SUMMED.update(zip(missing, _new_table_sums(missing), strict=True))
    return [_SUMMED[tables] for tables in blocks]


def _new_table_sums(blocks: Sequence[Tables]) -> list[TableSums]:
    """The sums of the tables of several pairs, in one launch."""
    a = Stack.of([tables.log_q[0] for tables in blocks])
    b = Stack.of([tables.log_q[1] for tables in blocks])
    n, m = a.shape
    across = triton.cdiv(m, TABLE_PROGRAM["COLUMNS"])
    down = triton.cdiv(n, TABLE_PROGRAM["ROWS"])
    kinds = len(fields(Sums))
    row_parts = a.first.new_empty((kinds, len(a), across, n))
    column_parts = a.first.new_empty((kinds, len(a), down, m))
    _table_sums[(across, down, len(a))](
        *a.read_with(b), row_parts, column_parts, **TABLE_PROGRAM, **a.known
    )
    rows = row_parts.sum(2, dtype=torch.float64).unbind(1)
    columns = column_parts.sum(2, dtype=torch.float64).unbind(1)
    sums = []
    for of_rows, of_columns in zip(rows, columns, strict=True):
        # The program has the kinds in the order of the fields of `Sums`
        sums.append(TableSums(rows=Sums(*of_rows), columns=Sums(*of_columns)))
    return sums


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
    """Partial sums of one block: row_parts (kind, pair, block across, x) and column_parts (kind,
    pair, block down, y), with the kinds in the order of the fields of `Sums`.
    """
    across = tl.program_id(0)
    down = tl.program_id(1)
    pair = tl.program_id(2).to(tl.int64)
    pairs = tl.num_programs(2).to(tl.int64)
    place_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    place_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
    m = m // EVEN * EVEN  # m itself, which the compiler so knows to be a multiple of EVEN
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
    sum_log_ratio = tl.zeros((SLAB, COLUMNS), tl.float32)
    for slab in range(0, tl.minimum(ROWS, n - down * ROWS), SLAB):
        x = down * ROWS + slab + tl.arange(0, SLAB)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        la = tl.load(log_a + place_a + cell, inside, float("-inf"))
        lb = tl.load(log_b + place_b + cell, inside, float("-inf"))
        a = exp(la)
        b = exp(lb)
        log_ratio = tl.where(inside, la - lb, 0.0)
        sum_a += a
        sum_b += b
        sum_both += a * b
        sum_log += weighed(la, la)
        sum_log_ratio += log_ratio
        tl.store(own_rows + x, tl.sum(a, 1), in_x)
        tl.store(own_rows + next_rows + x, tl.sum(b, 1), in_x)
        tl.store(own_rows + 2 * next_rows + x, tl.sum(a * b, 1), in_x)
        tl.store(own_rows + 3 * next_rows + x, tl.sum(weighed(lb, lb), 1), in_x)
        tl.store(own_rows + 4 * next_rows + x, tl.sum(log_ratio, 1), in_x)
    tl.store(own_columns, tl.sum(sum_a, 0), in_y)
    tl.store(own_columns + next_columns, tl.sum(sum_b, 0), in_y)
    tl.store(own_columns + 2 * next_columns, tl.sum(sum_both, 0), in_y)
    tl.store(own_columns + 3 * next_columns, tl.sum(sum_log, 0), in_y)
    tl.store(own_columns + 4 * next_columns, tl.sum(sum_log_ratio, 0), in_y)


@dataclass(frozen=True)
class PairSums:
    """Sums for each pair: over y for each x (row_...) and over x for each y (column_...), in
    float64.

    mass   of exp(r - shift), or of r^2 with `square`
    cross  of B r (rows) and of A r (columns); the masses again if `cross` was not asked for
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
    """The sums of a rule by one read of the tables, which are float32.

    `form` and `shift` have a row for each pair; without a shift it is zero.
    """
    n, m = a.shape
    pairs = len(a)
    down = triton.cdiv(n, RULE_PROGRAM["ROWS"])
    across = triton.cdiv(m, RULE_PROGRAM["COLUMNS"])
    kinds = 2 if cross else 1
    row_parts = a.first.new_empty((kinds, pairs, across, n))
    column_parts = a.first.new_empty((kinds, pairs, down, m))
    first = form.first
    second = form.second or first  # any vectors: with TWO false they are not used
    g, h = form.below or (None, None)
    zeros = a.first.new_zeros(pairs * max(n, m))  # as long as the longest vector
    vectors = []
    for vector in (first.f, first.e, second.f, second.e, g, h, shift):
        vectors.append(zeros if vector is None else vector.to(torch.float32).contiguous())
    _block_sums[(across, down, pairs)](
        *a.read_with(b),
        *vectors,
        row_parts,
        column_parts,
        float(first.a),
        float(first.b),
        TWO=form.second is not None,
        BELOW=form.below is not None,
        CROSS=cross,
        SQUARE=square,
        **RULE_PROGRAM,
        **a.known,
    )
    rows = row_parts.sum(2, dtype=torch.float64)
    columns = column_parts.sum(2, dtype=torch.float64)
    return PairSums(
        row_mass=rows[0], column_mass=columns[0], row_cross=rows[-1], column_cross=columns[-1]
    )


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
    """Partial sums of a rule over one block, with the vectors f, e, g and h of `PairForm`:

        r = log( exp(log A + f1[x] + e1[y]) + exp(log B + f2[x] + e2[y]) )              with TWO
        r = power_a log A + power_b log B + f1[x] + e1[y]                               without

    less log(exp g[x] + exp h[y]) with BELOW. They are row_parts (kind, pair, column block, x) and
    column_parts (kind, pair, row block, y); the kinds are mass and, with CROSS, cross.
    """
    column_block = tl.program_id(0)
    row_block = tl.program_id(1)
    pair = tl.program_id(2).to(tl.int64)
    column_blocks = tl.num_programs(0)
    row_blocks = tl.num_programs(1)
    pairs = tl.num_programs(2).to(tl.int64)
    m = m // EVEN * EVEN  # m itself, which the compiler so knows to be a multiple of EVEN
    place_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    place_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
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
        la = tl.load(log_a + place_a + cell, inside, float("-inf"))
        lb = tl.load(log_b + place_b + cell, inside, float("-inf"))
        r = tl.load(f1 + pair * n + x, in_x, 0.0)[:, None] + ey1[None, :]
        if TWO:
            r2 = tl.load(f2 + pair * n + x, in_x, 0.0)[:, None] + ey2[None, :] + lb
            r = log_add(r + la, r2)
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
    down = triton.cdiv(n, ROW_PROGRAM["TALL"])
    across = triton.cdiv(m, ROW_PROGRAM["WIDE"])
    parts = a.first.new_empty((2, a.rows, across, n))
    _row_sums[(down, across, len(a))](
        *a.read_with(b),
        *_terms(renewed=u, summed=v),
        parts,
        a.rows,
        LOGS=logs,
        **a.known,
        **ROW_PROGRAM,
    )
    return parts.sum(2, dtype=torch.float64)


def column_flows(
    a: Stack, b: Stack, u: Site, v: Site, logs: bool = True
) -> Float[Tensor, "2 rows m"]:
    """The two sums over x for every y, in float64, for each row."""
    n, m = a.shape
    across = triton.cdiv(m, COLUMN_PROGRAM["WIDE"])
    down = triton.cdiv(n, COLUMN_PROGRAM["TALL"])
    parts = a.first.new_empty((2, a.rows, down, m))
    _column_sums[(across, down, len(a))](
        *a.read_with(b),
        *_terms(renewed=v, summed=u),
        parts,
        a.rows,
        LOGS=logs,
        **a.known,
        **COLUMN_PROGRAM,
    )
    return parts.sum(2, dtype=torch.float64)


def _terms(renewed: Site, summed: Site) -> list[Tensor]:
    """The terms of the flows in float32, in the order in which the programs take them: two of the
    site that is renewed, three of the one that is summed over.
    """
    vectors = (renewed.scale, renewed.added, summed.scale, summed.into, summed.out)
    return [vector.to(torch.float32).contiguous() for vector in vectors]


@triton.jit
def _cells(first, place, cell, inside, LOGS: tl.constexpr):
    """Probabilities at `cell` of the matrix `place` cells after `first`; zero outside."""
    if LOGS:
        value = exp(tl.load(first + place + cell, inside, float("-inf")))
    else:
        value = tl.load(first + place + cell, inside, 0.0)
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
    """Partial sums over the y of one block, for each member of one pair: parts (in or out, row,
    block, x).
    """
    pair = tl.program_id(2)
    block = tl.program_id(1)
    blocks = tl.num_programs(1)
    m = m // EVEN * EVEN  # m itself, which the compiler so knows to be a multiple of EVEN
    x = tl.program_id(0) * TALL + tl.arange(0, TALL)
    y = block * WIDE + tl.arange(0, WIDE)
    in_x = x < n
    in_y = y < m
    inside = in_x[:, None] & in_y[None, :]
    cell = x.to(tl.int64)[:, None] * m + y[None, :]
    place_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    place_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
    a = _cells(log_a, place_a, cell, inside, LOGS=LOGS)
    b = _cells(log_b, place_b, cell, inside, LOGS=LOGS)
    for row in range(tl.load(begins + pair), tl.load(begins + pair + 1)):
        scale_x = tl.load(scale_u + row * n + x, in_x, 1.0)[:, None]
        added_x = tl.load(added_u + row * n + x, in_x, 0.0)[:, None]
        scale_y = tl.load(scale_v + row * m + y, in_y, 1.0)[None, :]
        k = reciprocal(scale_x + scale_y)
        kb = k * b
        into_y = tl.load(into_v + row * m + y, in_y, 0.0)[None, :]
        out_y = tl.load(out_v + row * m + y, in_y, 1.0)[None, :]
        flow_in = k * a * into_y + kb * scale_y * added_x
        flow_out = kb * out_y
        own = parts + (row * blocks + block) * n + x
        tl.store(own, tl.sum(flow_in, 1), in_x)
        tl.store(own + rows.to(tl.int64) * blocks * n, tl.sum(flow_out, 1), in_x)


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
    """Partial sums over the x of one block, for each member of one pair: parts (in or out, row,
    block, y).
    """
    pair = tl.program_id(2)
    block = tl.program_id(1)
    blocks = tl.num_programs(1)
    m = m // EVEN * EVEN  # m itself, which the compiler so knows to be a multiple of EVEN
    x = block * TALL + tl.arange(0, TALL)
    y = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    in_x = x < n
    in_y = y < m
    inside = in_x[:, None] & in_y[None, :]
    cell = x.to(tl.int64)[:, None] * m + y[None, :]
    place_a = tl.multiple_of(tl.load(places_a + pair), ALIGNED)
    place_b = tl.multiple_of(tl.load(places_b + pair), ALIGNED)
    a = _cells(log_a, place_a, cell, inside, LOGS=LOGS)
    b = _cells(log_b, place_b, cell, inside, LOGS=LOGS)
    for row in range(tl.load(begins + pair), tl.load(begins + pair + 1)):
        scale_y = tl.load(scale_v + row * m + y, in_y, 1.0)[None, :]
        added_y = tl.load(added_v + row * m + y, in_y, 0.0)[None, :]
        scale_x = tl.load(scale_u + row * n + x, in_x, 1.0)[:, None]
        k = reciprocal(scale_x + scale_y)
        ka = k * a
        into_x = tl.load(into_u + row * n + x, in_x, 0.0)[:, None]
        out_x = tl.load(out_u + row * n + x, in_x, 1.0)[:, None]
        flow_in = k * b * into_x + ka * scale_x * added_y
        flow_out = ka * out_x
        own = parts + (row * blocks + block) * m + y
        tl.store(own, tl.sum(flow_in, 0), in_y)
        tl.store(own + rows.to(tl.int64) * blocks * m, tl.sum(flow_out, 0), in_y)
