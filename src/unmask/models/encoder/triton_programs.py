"""An encoder layer's operations on a GPU, as Triton programs.

Attention of many short texts, softmax(Q K^T / sqrt(d)) V, has one program per text and head, with everything in registers.
Kernels made for long texts work on tiles of 64 or 128 tokens; a sentence has 16, so most of their work is on padding.

LayerNorm(x + r), the end of both halves of a post-norm layer, takes one pass over memory. Written out, the sum is stored and read
again: five passes over the states instead of three, which costs as much as a fifth of the layer's matrix products.

GELU(x W^T + b) has the activation within the product. A feed-forward layer's inner states are the widest of an encoder: a
separate GELU reads and writes all of them again, which takes half as long as the product. cuBLAS has a GELU within its products,
but the one with tanh, whose numbers differ. Here, with z = |x|,

    GELU(x) = x Phi(x) = max(x, 0) - z Phi(-z),       Phi(-z) = 2^P(z),

P of degree 6, closest to log2 Phi(-z) in the GELU that it makes: within 1e-7, a thousandth of what half precision rounds off.
From z = 6 on GELU is max(x, 0) to 1e-8.

A processor of the GPU computes one tile of it after the other, and loads its next factors while a tile is activated. Tiles are
as large as registers hold: with smaller ones the factors come from the cache more slowly than they are multiplied.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from triton.tools.tensor_descriptor import TensorDescriptor

PROGRAM = {"TALL": 128, "WIDE": 256, "DEEP": 64, "TOGETHER": 8, "num_warps": 8, "num_stages": 3}
"""A tile has TALL x WIDE numbers, computed with DEEP terms of each at a time; TOGETHER lines of tiles go column by column, so
that they find both factors near."""
DIVISOR = 8
"""Widths must be multiples of it, for lines to be loaded by their address."""
HOPPER = 9
"""The compute capability whose registers and memory the tiles are made for; elsewhere product and GELU are two operations."""


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


def add_norm(norm: nn.LayerNorm, x: Float[Tensor, "... d"], residual: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
    """norm(x + residual), the sum and its moments in float32."""
    width = x.shape[-1]
    x, residual = x.contiguous(), residual.contiguous()
    out = torch.empty_like(x)
    rows = x.numel() // width
    _add_norm[(rows,)](
        x, residual, norm.weight, norm.bias, out, width, norm.eps, WIDTH=triton.next_power_of_2(width), num_warps=2
    )
    return out


@triton.jit
def _add_norm(x, residual, weight, bias, out, width, eps, WIDTH: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    feature = tl.arange(0, WIDTH)
    inside = feature < width
    total = tl.load(x + start + feature, inside, 0.0).to(tl.float32)
    total += tl.load(residual + start + feature, inside, 0.0).to(tl.float32)
    mean = tl.sum(total, 0) / width
    centred = tl.where(inside, total - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / width + eps)
    gain = tl.load(weight + feature, inside, 0.0).to(tl.float32)
    shift = tl.load(bias + feature, inside, 0.0).to(tl.float32)
    tl.store(out + start + feature, (centred * scale * gain + shift).to(out.dtype.element_ty), inside)


def linear_gelu(module: nn.Linear, x: Float[Tensor, "... d"]) -> Float[Tensor, "... inner"]:
    """GELU of module(x), accumulated and activated in float32."""
    rows = x.reshape(-1, module.in_features).contiguous()
    out = torch.empty((len(rows), module.out_features), dtype=x.dtype, device=x.device)
    tall, wide, deep = (PROGRAM[name] for name in ("TALL", "WIDE", "DEEP"))
    down, across = triton.cdiv(len(rows), tall), triton.cdiv(module.out_features, wide)
    _product[(min(_processors(x.device), down * across),)](
        TensorDescriptor.from_tensor(rows, [tall, deep]), TensorDescriptor.from_tensor(module.weight.detach(), [wide, deep]),
        module.bias, TensorDescriptor.from_tensor(out, [tall, wide]), module.in_features, module.out_features, down, across,
        **PROGRAM,
    )  # fmt: skip
    return out.unflatten(0, x.shape[:-1])


def serves(module: nn.Linear, x: Tensor) -> bool:
    """Whether the GPU is one that this is made for, and the module has a bias and the widths for it."""
    if torch.version.hip is not None or torch.cuda.get_device_capability(x.device)[0] != HOPPER or module.bias is None:
        return False
    return module.in_features % DIVISOR == 0 and module.out_features % DIVISOR == 0


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3


@triton.jit(do_not_specialize=["down"])
def _product(
    x, weight, bias, out, inner, width, down, across,
    TALL: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
        group = tile // (TOGETHER * across) * TOGETHER
        tall = tl.minimum(down - group, TOGETHER)
        row = (group + tile % (TOGETHER * across) % tall) * TALL
        column = tile % (TOGETHER * across) // tall * WIDE
        total = tl.zeros((TALL, WIDE), tl.float32)
        for term in range(0, inner, DEEP):
            total = tl.dot(x.load([row, term]), weight.load([column, term]).T, total)
        features = column + tl.arange(0, WIDE)
        total += tl.load(bias + features, features < width, 0.0).to(tl.float32)[None, :]
        z = tl.minimum(tl.abs(total), 6.0)
        log = -0.000769219343 + z * 3.30927758e-05
        log = -0.0534121023 + z * (0.00808071532 + z * log)
        log = -1.1512017 + z * (-0.458770975 + z * log)
        total = tl.maximum(total, 0.0) - z * tl.exp2(-0.999993061 + z * log)
        out.store([row, column], total.to(out.dtype))
