"""The two sums of a sweep over the tables of pairs (see `unmask.joints.solver.flow_sweep`), each in one read of them on a GPU.

    rows      sum_y k (A into_v + added_u B scale_v),  sum_y k B out_v            k = 1 / (scale_u + scale_v)
    columns   sum_x k (B into_u + added_v A scale_u),  sum_x k A out_u

A program keeps a block of cells of both tables in registers and sums it for one member of the pair after the other, so that
a pair's members share the read and the exponentials. Partial sums of blocks are added in float64 in a fixed order. Every row of
a launch, a member of a pair, does the same sums whatever the other rows are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.rules import CHANGING, Stack
from unmask.joints.solver.members import Site
from unmask.joints.triton.arithmetic import exp, reciprocal

ROW_PROGRAM = {"TALL": 2, "WIDE": 1024, "num_warps": 4}
COLUMN_PROGRAM = {"TALL": 128, "WIDE": 32, "num_warps": 4}
"""Cells of one program: TALL x WIDE."""


def row_flows(a: Stack, b: Stack, u: Site, v: Site, logs: bool = True) -> Float[Tensor, "2 rows n"]:
    """The two sums over y for every x, in float64, for each row; `logs`: whether the tables hold logarithms."""
    n, m = a.shape
    grid = (triton.cdiv(n, ROW_PROGRAM["TALL"]), triton.cdiv(m, ROW_PROGRAM["WIDE"]), len(a))
    parts = a.first.new_empty((2, a.rows, grid[1], n))
    _row_sums[grid](*a.read_with(b), *_single(u, v), parts, a.rows, LOGS=logs, **a.known, **ROW_PROGRAM)
    return parts.sum(2, dtype=torch.float64)


def column_flows(a: Stack, b: Stack, u: Site, v: Site, logs: bool = True) -> Float[Tensor, "2 rows m"]:
    """The two sums over x for every y, in float64, for each row."""
    n, m = a.shape
    grid = (triton.cdiv(m, COLUMN_PROGRAM["WIDE"]), triton.cdiv(n, COLUMN_PROGRAM["TALL"]), len(a))
    parts = a.first.new_empty((2, a.rows, grid[1], m))
    _column_sums[grid](*a.read_with(b), *_single(v, u), parts, a.rows, LOGS=logs, **a.known, **COLUMN_PROGRAM)
    return parts.sum(2, dtype=torch.float64)


def _single(renewed: Site, summed: Site) -> list[Tensor]:
    """The terms of the sums: of the site that is renewed and of the one that is summed over, in float32."""
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
    log_a, log_b, places_a, places_b, begins, n, m, scale_u, added_u, scale_v, into_v, out_v, parts, rows,
    LOGS: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr, ALIGNED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
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
    log_a, log_b, places_a, places_b, begins, n, m, scale_v, added_v, scale_u, into_u, out_u, parts, rows,
    LOGS: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr, ALIGNED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
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
