"""y = act(x W^T + b) and y = x W^T + b + r in one pass over y, where oneDNN offers it; the plain operations elsewhere.
On a GPU the first, for GELU, where there are many rows (`gelu_product`).

On a CPU the plain `linear` writes the bias, then the product, then reads all of it again for the activation. For a
feed-forward layer of width 1,024 that costs as much as the product itself. torch carries oneDNN's fused products for its
compiler; they are called here directly, on the module's own weights.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional

FUSED_TYPES = (torch.float32, torch.bfloat16)
HALF_TYPES = (torch.float16, torch.bfloat16)
MANY = 2**14
"""Rows from which a program of ours is faster on a GPU than two operations."""


def linear_then(module: nn.Linear, activation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """activation(module(x))."""
    name = _fused_name(activation)
    if name == "gelu" and _many_on_gpu(x):
        from unmask.models.encoder.gelu_product import linear_gelu, serves

        if serves(module, x):
            return linear_gelu(module, x)
    if name is None or not _fusible(module, x):
        return activation(module(x))
    fused: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, name, [], "none")
    return fused


def linear_plus(module: nn.Linear, x: Tensor, residual: Tensor | None = None) -> Tensor:
    """module(x) + residual."""
    if not _fusible(module, x):
        product: Tensor = module(x)
        return product if residual is None else product.add_(residual)
    if residual is None:
        fused: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, "none", [], "none")
    else:
        fused = torch.ops.mkldnn._linear_pointwise.binary(x, residual, module.weight, module.bias, "add")
    return fused


def _fused_name(activation: Callable[[Tensor], Tensor]) -> str | None:
    if isinstance(activation, nn.ReLU):
        return "relu"
    exact_gelu = getattr(activation, "act", activation) is functional.gelu
    if exact_gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    return None


def _many_on_gpu(x: Tensor) -> bool:
    return x.is_cuda and x.dtype in HALF_TYPES and x.numel() >= MANY * x.shape[-1] and find_spec("triton") is not None


def _fusible(module: nn.Linear, x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype in FUSED_TYPES
        and x.dtype == module.weight.dtype
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (x.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
