"""GELU(x W^T + b) on a GPU, the activation within the product.

A feed-forward layer's inner states are the widest of an encoder: as an operation of its own GELU reads and writes all of
them again, half as long as the product takes. cuBLAS has a GELU within its products, but the one with tanh, whose numbers
differ. Here

    GELU(x) = x Phi(x),    Phi(-z) = 1 - Phi(z) = t (a1 + t (a2 + ...)) exp(-z^2 / 2) / 2,   t = 1 / (1 + p z / sqrt 2),   z >= 0

(Abramowitz and Stegun, 7.1.26), within 1e-7 of Phi in float32: a thousandth of what rounding to half precision does.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from triton.tools.tensor_descriptor import TensorDescriptor

PROGRAM = {"TALL": 128, "WIDE": 128, "DEEP": 64, "TOGETHER": 8, "num_warps": 8, "num_stages": 3}
"""A program computes TALL x WIDE numbers, DEEP terms of each at a time; TOGETHER lines of programs go column by column, so that
they find both factors near."""
DIVISOR = 8
"""Widths must be multiples of it, for lines to be loaded by their address."""


def linear_gelu(module: nn.Linear, x: Float[Tensor, "... d"]) -> Float[Tensor, "... inner"]:
    """GELU of module(x), accumulated and activated in float32."""
    rows = x.reshape(-1, module.in_features).contiguous()
    out = torch.empty((len(rows), module.out_features), dtype=x.dtype, device=x.device)
    tall, wide, deep = (PROGRAM[name] for name in ("TALL", "WIDE", "DEEP"))
    down, across = triton.cdiv(len(rows), tall), triton.cdiv(module.out_features, wide)
    _product[(down * across,)](
        TensorDescriptor.from_tensor(rows, [tall, deep]), TensorDescriptor.from_tensor(module.weight.detach(), [wide, deep]),
        module.bias, TensorDescriptor.from_tensor(out, [tall, wide]), module.in_features, module.out_features, down, across,
        **PROGRAM,
    )  # fmt: skip
    return out.unflatten(0, x.shape[:-1])


def serves(module: nn.Linear, x: Tensor) -> bool:
    """Whether the GPU, an NVIDIA one, loads these by their address, and the module has a bias and the widths for it."""
    if torch.version.hip is not None or torch.cuda.get_device_capability(x.device)[0] < 9 or module.bias is None:
        return False
    return module.in_features % DIVISOR == 0 and module.out_features % DIVISOR == 0


@triton.jit(do_not_specialize=["down"])
def _product(
    x, weight, bias, out, inner, width, down, across,
    TALL: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    group = program // (TOGETHER * across) * TOGETHER
    tall = tl.minimum(down - group, TOGETHER)
    row = (group + program % (TOGETHER * across) % tall) * TALL
    column = program % (TOGETHER * across) // tall * WIDE
    total = tl.zeros((TALL, WIDE), tl.float32)
    for term in range(0, inner, DEEP):
        total = tl.dot(x.load([row, term]), weight.load([column, term]).T, total)
    features = column + tl.arange(0, WIDE)
    total += tl.load(bias + features, features < width, 0.0).to(tl.float32)[None, :]
    z = tl.abs(total)
    root = tl.rsqrt(1.0 + 0.23164189 * z)
    t = root * root
    tail = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))))
    tail *= tl.exp2(-0.7213475204444817 * z * z)
    out.store([row, column], (total * tl.where(total < 0, tail, 1.0 - tail)).to(out.dtype))
