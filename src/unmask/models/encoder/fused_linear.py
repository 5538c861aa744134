"""y = act(x W^T + b) and y = x W^T + b + r in one pass over y, if oneDNN offers it; else the plain operations.
On a GPU the first, for GELU, if there are many rows (`triton_programs`).

On a CPU the plain `linear` writes the bias, then the product, then reads all of it again for the activation. For a
feed-forward layer of width 1,024 that costs as much as the product itself. torch carries oneDNN's fused products for its
compiler; they are called here directly, on the module's own weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.batching import triton_wanted

FUSED_TYPES = (torch.float32, torch.bfloat16)
HALF_TYPES = (torch.float16, torch.bfloat16)
MANY = 2**14
"""Rows from which a program of ours is faster on a GPU than two operations."""


def linear_then(module: nn.Linear, activation: Callable[[Tensor], Tensor], x: Tensor, fused: bool = True) -> Tensor:
    """activation(module(x))."""
    name = _fused_name(activation) if fused else None
    if name == "gelu" and x.numel() >= MANY * x.shape[-1] and half_precision_on_gpu(x):
        from unmask.models.encoder.triton_programs import linear_gelu, serves

        if serves(module, x):
            return linear_gelu(module, x)
    if name is None or not _fusible(module, x):
        return activation(module(x))
    activated: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, name, [], "none")
    return activated


def linear_plus(module: nn.Linear, x: Tensor, residual: Tensor | None = None, fused: bool = True) -> Tensor:
    """module(x) + residual."""
    if not fused or not _fusible(module, x):
        product: Tensor = module(x)
        return product if residual is None else product.add_(residual)
    if residual is None:
        total: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, "none", [], "none")
    else:
        total = torch.ops.mkldnn._linear_pointwise.binary(x, residual, module.weight, module.bias, "add")
    return total


def _fused_name(activation: Callable[[Tensor], Tensor]) -> str | None:
    if isinstance(activation, nn.ReLU):
        return "relu"
    exact_gelu = getattr(activation, "act", activation) is functional.gelu
    if exact_gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    return None


def half_precision_on_gpu(x: Tensor) -> bool:
    """Whether the programs of `triton_programs` work on this tensor."""
    return x.dtype in HALF_TYPES and triton_wanted(x)


def _fusible(module: nn.Linear, x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype in FUSED_TYPES
        and x.dtype == module.weight.dtype
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (x.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
