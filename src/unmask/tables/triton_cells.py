"""From logits to the cells of a table in two passes over them on a GPU.

For rows r of logits f and candidates C, with log Z_r over the whole vocabulary and log I_r over C,

    log q_r(x) = f_r(x) - log I_r  for x in C,        mass log I_r - log Z_r,        total log I_r .

Written out these are seven passes over memory. Here the first pass sums and the second writes,
into the table's own order.
"""

from __future__ import annotations

from math import gcd

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

LONG = 2048
TALL, WIDE = 64, 64
"""A program of the first pass sums LONG cells of a row at a time; one of the second writes TALL
rows of WIDE candidates.
"""


def fill(
    table: Float[Tensor, "before n after"],
    start: int,
    logits: Float[Tensor, "rows V"],
    candidates: Int[Tensor, " n"],
    whole: bool = False,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Row r of log q to table[(start + r) // after, :, (start + r) % after]; log I and log I -
    log Z of each row.

    `whole`: whether the candidates are the whole vocabulary in its order.
    """
    (rows, tokens), (_, n, after) = logits.shape, table.shape
    log_z, log_inside = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
    known = {"WHOLE": whole, "EVEN": gcd(16, tokens, n, logits.stride(0))}
    _sums[(rows,)](
        logits, candidates, log_z, log_inside, logits.stride(0), tokens, n, LONG=LONG, **known
    )
    grid = (triton.cdiv(rows, TALL), triton.cdiv(n, WIDE))
    shapes = {"ONE": len(table) == 1, "TALL": TALL, "WIDE": WIDE, **known}
    _write[grid](
        logits, candidates, log_inside, table, start, logits.stride(0), rows, n, after, **shapes
    )
    return log_inside, log_inside - log_z


def precompile(tokens: int, n: int, device: torch.device) -> None:
    """Launch one of each program for tables over n of `tokens` tokens, of other sizes with the
    same multiples.
    """
    logits, over = torch.zeros((16, 64 + tokens % 16), device=device), 32 + n % 16
    candidates = torch.arange(over, device=device)
    for shape in ((1, over, over), (16, over, 1)):
        fill(torch.empty(shape, device=device), 0, logits, candidates, n == tokens)


@triton.jit(do_not_specialize=["stride", "tokens", "n"])
def _sums(
    logits,
    candidates,
    log_z,
    log_inside,
    stride,
    tokens,
    n,
    LONG: tl.constexpr,
    WHOLE: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0)
    tokens = tokens // EVEN * EVEN
    first = logits + row.to(tl.int64) * (stride // EVEN * EVEN)
    high = tl.full((LONG,), float("-inf"), tl.float32)
    for begin in range(0, tokens, LONG):
        x = begin + tl.arange(0, LONG)
        high = tl.maximum(high, tl.load(first + x, x < tokens, float("-inf")).to(tl.float32))
    highest = tl.max(high, 0)
    whole = tl.zeros((LONG,), tl.float32)
    for begin in range(0, tokens, LONG):
        x = begin + tl.arange(0, LONG)
        whole += tl.exp(tl.load(first + x, x < tokens, float("-inf")).to(tl.float32) - highest)
    inside = whole
    if not WHOLE:
        inside = tl.zeros((LONG,), tl.float32)
        for begin in range(0, n, LONG):
            j = begin + tl.arange(0, LONG)
            x = tl.load(candidates + j, j < n, 0)
            inside += tl.exp(tl.load(first + x, j < n, float("-inf")).to(tl.float32) - highest)
    tl.store(log_z + row, highest + tl.log(tl.sum(whole, 0)))
    tl.store(log_inside + row, highest + tl.log(tl.sum(inside, 0)))


@triton.jit(do_not_specialize=["start", "stride", "rows", "n"])
def _write(
    logits,
    candidates,
    log_inside,
    table,
    start,
    stride,
    rows,
    n,
    after,
    ONE: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    WHOLE: tl.constexpr,
    EVEN: tl.constexpr,
):
    stride, n = stride // EVEN * EVEN, n // EVEN * EVEN
    row = tl.program_id(0) * TALL + tl.arange(0, TALL)
    j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    in_rows, in_n = row < rows, j < n
    inside = in_rows[:, None] & in_n[None, :]
    x = j if WHOLE else tl.load(candidates + j, in_n, 0)
    cells = tl.load(logits + row.to(tl.int64)[:, None] * stride + x[None, :], inside, 0.0).to(
        tl.float32
    )
    cells -= tl.load(log_inside + row, in_rows, 0.0)[:, None]
    place = (start + row).to(tl.int64)
    if not ONE:
        place = place // after * n * after + place % after
    tl.store(table + place[:, None] + j.to(tl.int64)[None, :] * after, cells, inside)
