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

LONG = 2048  # logits of a row that a program of the first pass sums at a time
TALL = 64  # rows that a program of the second pass writes
WIDE = 64  # candidates of these rows that it writes
ALIGNED = 16
"""Largest multiple that a program is compiled for: addresses and lines at such multiples let it
load several cells at once.
"""


def fill(
    table: Float[Tensor, "before n after"],
    start: int,
    logits: Float[Tensor, "rows V"],
    candidates: Int[Tensor, " n"],
    whole: bool = False,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Write row r of log q to table[(start + r) // after, :, (start + r) % after]. Returns log I
    and log I - log Z of each row.

    whole   whether the candidates are the whole vocabulary in its order
    """
    rows, tokens = logits.shape
    _, n, after = table.shape
    stride = logits.stride(0)
    log_z = logits.new_empty(rows, dtype=torch.float32)
    log_inside = logits.new_empty(rows, dtype=torch.float32)
    compiled_for = {"WHOLE": whole, "EVEN": gcd(ALIGNED, tokens, n, stride)}
    _sums[(rows,)](
        logits, candidates, log_z, log_inside, stride, tokens, n, LONG=LONG, **compiled_for
    )
    grid = (triton.cdiv(rows, TALL), triton.cdiv(n, WIDE))
    compiled_for |= {"ONE": len(table) == 1, "TALL": TALL, "WIDE": WIDE}
    _write[grid](
        logits, candidates, log_inside, table, start, stride, rows, n, after, **compiled_for
    )
    return log_inside, log_inside - log_z


def precompile(tokens: int, n: int, device: torch.device) -> None:
    """Launch one of each program for tables over n of `tokens` tokens, of other sizes with the
    same multiples.
    """
    stride = 64 + tokens % ALIGNED
    few = 32 + n % ALIGNED
    logits = torch.zeros((ALIGNED, stride), device=device)
    candidates = torch.arange(few, device=device)
    for shape in ((1, few, few), (ALIGNED, few, 1)):  # of a first blank, and of a last one
        table = torch.empty(shape, device=device)
        fill(table, start=0, logits=logits, candidates=candidates, whole=n == tokens)


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
    """log Z and log I of one row of logits.

    logits      (rows, tokens), a row beginning every `stride` cells
    candidates  (n)
    log_z, log_inside   (rows)
    EVEN        a divisor of tokens, n and stride
    """
    row = tl.program_id(0)
    tokens = tokens // EVEN * EVEN  # the same number, which the compiler knows to be a multiple
    first = logits + row.to(tl.int64) * (stride // EVEN * EVEN)  # in 64 bits: rows x V may be large
    high = tl.full((LONG,), float("-inf"), tl.float32)
    for begin in range(0, tokens, LONG):
        x = begin + tl.arange(0, LONG)
        high = tl.maximum(high, tl.load(first + x, x < tokens, float("-inf")).to(tl.float32))
    highest = tl.max(high, 0)
    # sums of exp(f - highest), which does not overflow
    all_tokens = tl.zeros((LONG,), tl.float32)
    for begin in range(0, tokens, LONG):
        x = begin + tl.arange(0, LONG)
        f = tl.load(first + x, x < tokens, float("-inf")).to(tl.float32)
        all_tokens += tl.exp(f - highest)
    inside = all_tokens
    if not WHOLE:
        inside = tl.zeros((LONG,), tl.float32)
        for begin in range(0, n, LONG):
            j = begin + tl.arange(0, LONG)
            x = tl.load(candidates + j, j < n, 0)
            f = tl.load(first + x, j < n, float("-inf")).to(tl.float32)
            inside += tl.exp(f - highest)
    tl.store(log_z + row, highest + tl.log(tl.sum(all_tokens, 0)))
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
    """log q of TALL rows and WIDE candidates into a table (before, n, after).

    logits      as in `_sums`; log_inside as `_sums` leaves it
    start       the row of the table that the first row of logits is
    ONE         whether before is 1, so that the row of the table is its last index
    """
    stride = stride // EVEN * EVEN
    n = n // EVEN * EVEN
    row = tl.program_id(0) * TALL + tl.arange(0, TALL)
    j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    in_rows = row < rows
    in_n = j < n
    is_cell = in_rows[:, None] & in_n[None, :]
    x = j if WHOLE else tl.load(candidates + j, in_n, 0)
    at = logits + row.to(tl.int64)[:, None] * stride + x[None, :]
    cells = tl.load(at, is_cell, 0.0).to(tl.float32)
    cells -= tl.load(log_inside + row, in_rows, 0.0)[:, None]
    place = (start + row).to(tl.int64)
    if not ONE:
        place = place // after * n * after + place % after
    to = table + place[:, None] + j.to(tl.int64)[None, :] * after
    tl.store(to, cells, is_cell)
