"""The two sums of a sweep over the tables of pairs (see `unmask.joints.solver.pair_sweep`), each in one read of them on a GPU.

    rows      sum_y k (A into_v + added_u B scale_v),  sum_y k B out_v            k = 1 / (scale_u + scale_v)
    columns   sum_x k (B into_u + added_v A scale_u),  sum_x k A out_u

A block of cells stays in registers while it is summed; partial sums of blocks are added in float64 in a fixed order. Every
row of a launch, a member of a pair, does the same sums whatever the other rows are; the members of a pair follow each other
over the same block of its tables.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unmask.joints.solver.members import Site
from unmask.joints.triton.stack import ALIGNED, Stack

ROW_PROGRAM = {"LONG": 2048, "LINES": 8, "STEP": 256, "ALIGNED": ALIGNED}
COLUMN_PROGRAM = {"LONG": 512, "LINES": 128, "STEP": 8, "ALIGNED": ALIGNED}
"""A program sums LONG cells of LINES lines side by side, STEP cells of each at a time."""


def row_flows(a: Stack, b: Stack, u: Site, v: Site, logs: bool = True) -> Float[Tensor, "2 rows n"]:
    """The two sums over y for every x, in float64, for each row; `logs`: whether the tables hold logarithms."""
    n, m = a.shape
    grid = (len(a), triton.cdiv(m, ROW_PROGRAM["LONG"]), triton.cdiv(n, ROW_PROGRAM["LINES"]))
    parts = a.first.new_empty((2, grid[0], grid[1], n))
    _row_sums[grid](a.first, b.first, a.places, b.places, *_single(u, v), parts, n, m, grid[1], LOGS=logs, **ROW_PROGRAM)
    return parts.sum(2, dtype=torch.float64)


def column_flows(a: Stack, b: Stack, u: Site, v: Site, logs: bool = True) -> Float[Tensor, "2 rows m"]:
    """The two sums over x for every y, in float64, for each row."""
    n, m = a.shape
    grid = (len(a), triton.cdiv(m, COLUMN_PROGRAM["LINES"]), triton.cdiv(n, COLUMN_PROGRAM["LONG"]))
    parts = a.first.new_empty((2, grid[0], grid[2], m))
    _column_sums[grid](a.first, b.first, a.places, b.places, *_single(v, u), parts, n, m, grid[2], LOGS=logs, **COLUMN_PROGRAM)
    return parts.sum(2, dtype=torch.float64)


def _single(renewed: Site, summed: Site) -> list[Tensor]:
    """What the sums take of the site that is renewed and of the one that is summed over, in float32."""
    vectors = (renewed.scale, renewed.added, summed.scale, summed.into, summed.out)
    return [vector.to(torch.float32).contiguous() for vector in vectors]


@triton.jit
def _cells(first, place, cell, inside, LOGS: tl.constexpr):
    value = tl.load(first + place + cell, inside, float("-inf") if LOGS else 0.0)
    if LOGS:
        value = tl.exp(value)
    return value


@triton.jit
def _row_sums(
    log_a, log_b, places_a, places_b, scale_u, added_u, scale_v, into_v, out_v, parts, n, m, blocks,
    LOGS: tl.constexpr, LONG: tl.constexpr, LINES: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    member, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    members = tl.num_programs(0).to(tl.int64)
    at_a = tl.multiple_of(tl.load(places_a + member), ALIGNED)
    at_b = tl.multiple_of(tl.load(places_b + member), ALIGNED)
    x = tl.program_id(2) * LINES + tl.arange(0, LINES)
    in_x = x < n
    ux = tl.load(scale_u + member * n + x, in_x, 1.0)
    rx = tl.load(added_u + member * n + x, in_x, 0.0)
    above = tl.zeros((LINES, STEP), tl.float32)
    below = tl.zeros((LINES, STEP), tl.float32)
    for start in range(0, tl.minimum(LONG, m - block * LONG), STEP):
        y = block * LONG + start + tl.arange(0, STEP)
        in_y = y < m
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        a = _cells(log_a, at_a, cell, inside, LOGS)
        b = _cells(log_b, at_b, cell, inside, LOGS)
        vy = tl.load(scale_v + member * m + y, in_y, 1.0)
        k = 1.0 / (ux[:, None] + vy[None, :])
        above += k * (a * tl.load(into_v + member * m + y, in_y, 0.0)[None, :] + b * vy[None, :] * rx[:, None])
        below += k * b * tl.load(out_v + member * m + y, in_y, 1.0)[None, :]
    tl.store(parts + (member * blocks + block) * n + x, tl.sum(above, 1), in_x)
    tl.store(parts + ((members + member) * blocks + block) * n + x, tl.sum(below, 1), in_x)


@triton.jit
def _column_sums(
    log_a, log_b, places_a, places_b, scale_v, added_v, scale_u, into_u, out_u, parts, n, m, blocks,
    LOGS: tl.constexpr, LONG: tl.constexpr, LINES: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    member, block = tl.program_id(0).to(tl.int64), tl.program_id(2)
    members = tl.num_programs(0).to(tl.int64)
    at_a = tl.multiple_of(tl.load(places_a + member), ALIGNED)
    at_b = tl.multiple_of(tl.load(places_b + member), ALIGNED)
    y = tl.program_id(1) * LINES + tl.arange(0, LINES)
    in_y = y < m
    vy = tl.load(scale_v + member * m + y, in_y, 1.0)
    ry = tl.load(added_v + member * m + y, in_y, 0.0)
    above = tl.zeros((STEP, LINES), tl.float32)
    below = tl.zeros((STEP, LINES), tl.float32)
    for start in range(0, tl.minimum(LONG, n - block * LONG), STEP):
        x = block * LONG + start + tl.arange(0, STEP)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        a = _cells(log_a, at_a, cell, inside, LOGS)
        b = _cells(log_b, at_b, cell, inside, LOGS)
        ux = tl.load(scale_u + member * n + x, in_x, 1.0)
        k = 1.0 / (ux[:, None] + vy[None, :])
        above += k * (b * tl.load(into_u + member * n + x, in_x, 0.0)[:, None] + a * ux[:, None] * ry[None, :])
        below += k * a * tl.load(out_u + member * n + x, in_x, 1.0)[:, None]
    tl.store(parts + (member * blocks + block) * m + y, tl.sum(above, 0), in_y)
    tl.store(parts + ((members + member) * blocks + block) * m + y, tl.sum(below, 0), in_y)
