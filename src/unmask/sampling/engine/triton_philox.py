"""Uniform numbers by Philox 4x32-10 in one launch (see `unmask.sampling.engine.philox`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 256


def uniform_on_gpu(
    words: tuple[int, int, int, int, int], chains: Int[Tensor, " m"], places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """The bits of `plain_uniform`."""
    m, p = len(chains), places.shape[1]
    out = torch.empty((m, p), dtype=torch.float64, device=chains.device)
    if out.numel():
        stride = p if len(places) > 1 else 0
        signed = [word - 2**32 if word >= 2**31 else word for word in words]
        _uniform[(triton.cdiv(m * p, BLOCK),)](chains, places.contiguous(), out, m * p, p, stride, *signed, BLOCK=BLOCK)
    return out


@triton.jit(do_not_specialize=["total", "p", "stride", "key", "place0", "step", "sweep", "high"])
def _uniform(chains, places, out, total, p, stride, key, place0, step, sweep, high, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    row, place = at // p, at % p
    chain = tl.load(chains + row, inside, 0).to(tl.uint64)
    c0 = (tl.load(places + row * stride + place, inside, 0) + place0).to(tl.uint32)
    zero = tl.zeros((BLOCK,), tl.uint32)
    seed = (chain << 32) | (zero + key.to(tl.uint32)).to(tl.uint64)
    w0, w1, _, _ = tl.philox(seed, c0, zero + step.to(tl.uint32), zero + sweep.to(tl.uint32), zero + high.to(tl.uint32))
    bits = ((w0 >> 6).to(tl.int64) << 26) | (w1 >> 6).to(tl.int64)
    tl.store(out + at, (bits.to(tl.float64) + 0.5) * 2.220446049250313e-16, inside)
