"""The two sums of a sweep over a pair's tables (see `unmask.joints.solver.flow_sweep`), each in one read of them on a GPU.

    rows      sum_y A v k,  sum_y B k        columns    sum_x B u k,  sum_x A k        k = 1 / (u^beta + v^beta)

What is computed is what `flow_sweep` states; a block of cells stays in registers while it is summed, partial sums of blocks
are added in float64 in a fixed order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

ROW_PROGRAM = {"LONG": 2048, "LINES": 8, "STEP": 256}
COLUMN_PROGRAM = {"LONG": 512, "LINES": 128, "STEP": 8}
"""A program sums LONG cells of LINES lines side by side, STEP cells of each at a time."""


def row_flows(log_a: Tensor, log_b: Tensor, u_beta: Tensor, v_beta: Tensor, v: Tensor) -> Float[Tensor, "2 members n"]:
    """sum_y A v k and sum_y B k for every x, in float64, for each member's row of the vectors."""
    n, m = log_a.shape
    grid = (triton.cdiv(m, ROW_PROGRAM["LONG"]), triton.cdiv(n, ROW_PROGRAM["LINES"]))
    parts = log_a.new_empty((len(v), 2, grid[0], n))
    for i, part in enumerate(parts):
        _row_sums[grid](log_a, log_b, u_beta[i], v_beta[i], v[i], part, n, m, grid[0], **ROW_PROGRAM)
    return parts.sum(2, dtype=torch.float64).transpose(0, 1)


def column_flows(log_a: Tensor, log_b: Tensor, u_beta: Tensor, v_beta: Tensor, u: Tensor) -> Float[Tensor, "2 members m"]:
    """sum_x B u k and sum_x A k for every y, in float64, for each member's row of the vectors."""
    n, m = log_a.shape
    grid = (triton.cdiv(m, COLUMN_PROGRAM["LINES"]), triton.cdiv(n, COLUMN_PROGRAM["LONG"]))
    parts = log_a.new_empty((len(u), 2, grid[1], m))
    for i, part in enumerate(parts):
        _column_sums[grid](log_a, log_b, u_beta[i], v_beta[i], u[i], part, n, m, grid[1], **COLUMN_PROGRAM)
    return parts.sum(2, dtype=torch.float64).transpose(0, 1)


@triton.jit
def _row_sums(
    log_a, log_b, u_beta, v_beta, v, parts, n, m, blocks,
    LONG: tl.constexpr, LINES: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    x = tl.program_id(1) * LINES + tl.arange(0, LINES)
    in_x = x < n
    ux = tl.load(u_beta + x, in_x, 1.0)
    above = tl.zeros((LINES, STEP), tl.float32)
    below = tl.zeros((LINES, STEP), tl.float32)
    for start in range(0, LONG, STEP):
        y = block * LONG + start + tl.arange(0, STEP)
        in_y = y < m
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        a = tl.exp(tl.load(log_a + cell, inside, float("-inf")))
        b = tl.exp(tl.load(log_b + cell, inside, float("-inf")))
        k = 1.0 / (ux[:, None] + tl.load(v_beta + y, in_y, 1.0)[None, :])
        above += a * k * tl.load(v + y, in_y, 0.0)[None, :]
        below += b * k
    tl.store(parts + block * n + x, tl.sum(above, 1), in_x)
    tl.store(parts + (blocks + block) * n + x, tl.sum(below, 1), in_x)


@triton.jit
def _column_sums(
    log_a, log_b, u_beta, v_beta, u, parts, n, m, blocks,
    LONG: tl.constexpr, LINES: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(1)
    y = tl.program_id(0) * LINES + tl.arange(0, LINES)
    in_y = y < m
    vy = tl.load(v_beta + y, in_y, 1.0)
    above = tl.zeros((STEP, LINES), tl.float32)
    below = tl.zeros((STEP, LINES), tl.float32)
    for start in range(0, LONG, STEP):
        x = block * LONG + start + tl.arange(0, STEP)
        in_x = x < n
        inside = in_x[:, None] & in_y[None, :]
        cell = x.to(tl.int64)[:, None] * m + y[None, :]
        a = tl.exp(tl.load(log_a + cell, inside, float("-inf")))
        b = tl.exp(tl.load(log_b + cell, inside, float("-inf")))
        k = 1.0 / (tl.load(u_beta + x, in_x, 1.0)[:, None] + vy[None, :])
        above += b * k * tl.load(u + x, in_x, 0.0)[:, None]
        below += a * k
    tl.store(parts + block * m + y, tl.sum(above, 0), in_y)
    tl.store(parts + (blocks + block) * m + y, tl.sum(below, 0), in_y)
