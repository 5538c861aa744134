"""Self-attention of many short texts on a GPU: one program a text and head, everything in registers.

    softmax(Q K^T / sqrt(d)) V

Kernels made for long texts work on tiles of 64 or 128 tokens; a sentence has 16, so most of their work is on padding.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor


def short_attention(
    queries: Float[Tensor, "n T d"], keys: Float[Tensor, "n T d"], values: Float[Tensor, "n T d"], heads: int
) -> Float[Tensor, "n T d"]:
    """Attention of every text over itself; the three may be slices of one tensor of shape (n, T, 3 d)."""
    if not queries.stride() == keys.stride() == values.stride():
        queries, keys, values = queries.contiguous(), keys.contiguous(), values.contiguous()
    n, length, width = queries.shape
    out = torch.empty((n, length, width), dtype=queries.dtype, device=queries.device)
    head_width = width // heads
    _attend[(n, heads)](
        queries, keys, values, out, queries.stride(0), queries.stride(1), out.stride(0), out.stride(1), length, head_width**-0.5,
        TOKENS=max(16, triton.next_power_of_2(length)), WIDTH=head_width, num_warps=1 if length <= 32 else 4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["length"])
def _attend(
    queries, keys, values, out, text_stride, token_stride, out_text_stride, out_token_stride, length, scale,
    TOKENS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    text, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token, feature = tl.arange(0, TOKENS), tl.arange(0, WIDTH)
    inside = token < length
    place = text * text_stride + token[:, None] * token_stride + head * WIDTH + feature[None, :]
    q = tl.load(queries + place, inside[:, None], 0.0)
    k = tl.load(keys + place, inside[:, None], 0.0)
    v = tl.load(values + place, inside[:, None], 0.0)
    score = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    weight = weight / tl.sum(weight, 1)[:, None]
    mixed = tl.dot(weight.to(v.dtype), v)
    place = text * out_text_stride + token[:, None] * out_token_stride + head * WIDTH + feature[None, :]
    tl.store(out + place, mixed.to(v.dtype), inside[:, None])
