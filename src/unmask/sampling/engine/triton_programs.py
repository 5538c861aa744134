"""Programs for a GPU: uniform numbers by Philox 4x32-10 in one launch (`randomness` has the plain
twin), and tokens drawn from rows of logits (`token_draw` has it).

Nothing of the size of the rows is written. One program per row of logits reads it three times:
for its largest numbers, for its sums, and for the token at which the cumulative sum exceeds u Z.
Exponentials of float32 logits are taken in float32, sums in float64; float64 logits stay float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.engine.token_draw import Drawn, TokenDraw

UNIFORM_BLOCK = 256  # Numbers of a program
BLOCK = 2048  # Logits of a row that a program reads at once
WARPS = 8
DRAW = 0  # What `_draw` does: draws tokens by uniform numbers,
GREEDY = 1  # takes the likeliest,
GIVEN = 2  # or computes the numbers of tokens that are given.


def draw_on_gpu(task: TokenDraw) -> Drawn:
    """`plain_draw` in one launch."""
    logits = _with_adjacent_columns(task.logits)
    m, size = logits.shape
    numbers = torch.empty((5, m), dtype=torch.float64, device=logits.device)
    if task.tokens is not None:
        how = GIVEN
        tokens = task.tokens.contiguous()
    else:
        how = GREEDY if task.temperature == 0 else DRAW
        tokens = torch.empty(m, dtype=torch.long, device=logits.device)
    if task.uniform is None:
        uniform = numbers  # any pointer: it is not read
    else:
        uniform = task.uniform.contiguous()
    if m:
        _draw[(m,)](
            logits,
            task.support.contiguous().view(torch.uint8),
            task.sites.contiguous(),
            task.current.contiguous(),
            uniform,
            tokens,
            numbers,
            m,
            size,
            logits.stride(0),
            HEAT=task.temperature or 1.0,
            HOW=how,
            PLAIN=task.temperature in (0, 1),
            BLOCK=min(BLOCK, triton.next_power_of_2(size)),
            num_warps=WARPS,
        )
    return Drawn(tokens, *numbers.unbind(0))


def log_normaliser_on_gpu(logits: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """log sum exp of each row, in float64."""
    logits = _with_adjacent_columns(logits)
    m, size = logits.shape
    out = torch.empty(m, dtype=torch.float64, device=logits.device)
    if m:
        block = min(BLOCK, triton.next_power_of_2(size))
        _log_normaliser[(m,)](logits, out, size, logits.stride(0), BLOCK=block, num_warps=WARPS)
    return out


def _with_adjacent_columns(logits: Float[Tensor, "m V"]) -> Float[Tensor, "m V"]:
    """The logits, each row without gaps; rows may lie apart, as of a larger tensor."""
    if logits.stride(1) == 1:
        return logits
    return logits.contiguous()


@triton.jit(do_not_specialize=["m"])
def _draw(
    logits,
    support,
    sites,
    current,
    uniform,
    chosen,
    numbers,
    m,
    size,
    stride,
    HEAT: tl.constexpr,
    HOW: tl.constexpr,
    PLAIN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # logits (m, V), of rows `stride` apart; support (F, V), uint8; sites, current, uniform and
    # chosen (m,); numbers (5, m), the columns of `Drawn` from log_density on; size: V.
    # `chosen` is written by DRAW and GREEDY, and read by GIVEN. PLAIN: HEAT is 1.
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    here = logits + row * stride
    allowed = support + tl.load(sites + row) * size
    # The largest logit of the row, and of its allowed tokens.
    kind: tl.constexpr = logits.dtype.element_ty
    top_all = tl.full((BLOCK,), float("-inf"), kind)
    top = tl.full((BLOCK,), float("-inf"), kind)
    for start in range(0, size, BLOCK):
        at = start + place
        f = tl.load(here + at, at < size, float("-inf"))
        ok = tl.load(allowed + at, at < size, 0) != 0
        top_all = tl.maximum(top_all, f)
        top = tl.maximum(top, tl.where(ok, f, float("-inf")))
    most_all = tl.max(top_all, 0)
    most = tl.max(top, 0)
    # Sums of exponentials: over the row, over its allowed tokens, and over these with HEAT; and
    # the first allowed token that has the largest logit.
    sum_all = tl.zeros((BLOCK,), tl.float64)
    sum_allowed = tl.zeros((BLOCK,), tl.float64)
    sum_kept = tl.zeros((BLOCK,), tl.float64)
    first = tl.zeros((BLOCK,), tl.int32) + size
    for start in range(0, size, BLOCK):
        at = start + place
        f = tl.load(here + at, at < size, float("-inf"))
        ok = tl.load(allowed + at, at < size, 0) != 0
        sum_all += tl.exp(f - most_all).to(tl.float64)
        sum_allowed += tl.where(ok, tl.exp(f - most), 0.0).to(tl.float64)
        if not PLAIN:
            sum_kept += tl.where(ok, tl.exp((f - most) / HEAT), 0.0).to(tl.float64)
        if HOW == 1:  # GREEDY
            first = tl.minimum(first, tl.where(ok & (f == most), at, size))
    total = tl.sum(sum_allowed if PLAIN else sum_kept, 0)
    if HOW == 2:  # GIVEN
        token = tl.load(chosen + row)
    elif HOW == 1:  # GREEDY
        token = tl.minimum(tl.min(first, 0), size - 1).to(tl.int64)  # all-NaN rows have no argmax
        tl.store(chosen + row, token)
    else:
        # The first token at which the cumulative sum exceeds u Z; at most the last with a weight.
        wanted = tl.load(uniform + row) * total
        before = total * 0.0
        passed = size
        last = 0
        for start in range(0, size, BLOCK):
            at = start + place
            f = tl.load(here + at, at < size, float("-inf"))
            ok = tl.load(allowed + at, at < size, 0) != 0
            weight = tl.where(ok, tl.exp((f - most) / HEAT), 0.0).to(tl.float64)
            beyond = (before + tl.cumsum(weight, 0) > wanted) & (weight > 0)
            passed = tl.minimum(passed, tl.min(tl.where(beyond, at, size), 0))
            last = tl.maximum(last, tl.max(tl.where(weight > 0, at, 0), 0))
            before += tl.sum(weight, 0)
        token = tl.minimum(passed, last).to(tl.int64)
        tl.store(chosen + row, token)
    # The numbers: log g of the token and of the current token, the logit, both normalisers.
    log_total = tl.log(total)
    wide = most.to(tl.float64)
    f = tl.load(here + token)
    outside = tl.load(allowed + token) == 0
    density = (f.to(tl.float64) - wide) / HEAT - log_total
    tl.store(numbers + row, tl.where(outside, float("-inf"), density))
    there = tl.load(current + row)
    g = tl.load(here + there)
    outside = tl.load(allowed + there) == 0
    density = (g.to(tl.float64) - wide) / HEAT - log_total
    tl.store(numbers + m + row, tl.where(outside, float("-inf"), density))
    tl.store(numbers + 2 * m + row, f.to(tl.float64))
    tl.store(numbers + 3 * m + row, most_all.to(tl.float64) + tl.log(tl.sum(sum_all, 0)))
    tl.store(numbers + 4 * m + row, wide + tl.log(tl.sum(sum_allowed, 0)))


@triton.jit
def _log_normaliser(logits, out, size, stride, BLOCK: tl.constexpr):
    # logits (m, V), of rows `stride` apart; out (m,); size: V.
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    here = logits + row * stride
    top = tl.full((BLOCK,), float("-inf"), logits.dtype.element_ty)
    for start in range(0, size, BLOCK):
        top = tl.maximum(top, tl.load(here + start + place, start + place < size, float("-inf")))
    most = tl.max(top, 0)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, size, BLOCK):
        f = tl.load(here + start + place, start + place < size, float("-inf"))
        total += tl.exp(f - most).to(tl.float64)
    tl.store(out + row, most.to(tl.float64) + tl.log(tl.sum(total, 0)))


def uniform_on_gpu(
    words: tuple[int, int, int, int, int], chains: Int[Tensor, " m"], places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """The bits of `plain_uniform`."""
    m, p = len(chains), places.shape[1]
    out = torch.empty((m, p), dtype=torch.float64, device=chains.device)
    if out.numel():
        stride = p if len(places) > 1 else 0  # of `places`: a single row is for all chains
        # Triton takes a number from 2^31 on for an int64, and would compile another program.
        signed = [word - 2**32 if word >= 2**31 else word for word in words]
        _uniform[(triton.cdiv(m * p, UNIFORM_BLOCK),)](
            chains, places.contiguous(), out, m * p, p, stride, *signed, BLOCK=UNIFORM_BLOCK
        )
    return out


@triton.jit(do_not_specialize=["total", "p", "stride", "key", "place0", "step", "sweep", "high"])
def _uniform(
    chains, places, out, total, p, stride, key, place0, step, sweep, high, BLOCK: tl.constexpr
):
    # chains (m,); places (m, p), or (1, p) with a stride of 0; out (m, p); total: m p.
    # key, place0, step, sweep, high: the words of `counter_words`, as int32.
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    row, place = at // p, at % p
    chain = tl.load(chains + row, inside, 0).to(tl.uint64)
    c0 = (tl.load(places + row * stride + place, inside, 0) + place0).to(tl.uint32)
    zero = tl.zeros((BLOCK,), tl.uint32)
    seed = (chain << 32) | (zero + key.to(tl.uint32)).to(tl.uint64)
    w0, w1, _, _ = tl.philox(
        seed, c0, zero + step.to(tl.uint32), zero + sweep.to(tl.uint32), zero + high.to(tl.uint32)
    )
    bits = ((w0 >> 6).to(tl.int64) << 26) | (w1 >> 6).to(tl.int64)
    tl.store(out + at, (bits.to(tl.float64) + 0.5) * 2.220446049250313e-16, inside)
