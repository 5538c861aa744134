"""y = act(x W^T + b), y = x W^T + b + r and y = act(x G^T + c) * (x U^T + b) in one pass over y, if oneDNN offers it; else the
plain operations. On a GPU those with an activation, if there are many rows (`triton_programs`).

On a CPU the plain `linear` writes the bias, then the product, then reads all of it again for the activation. For a
feed-forward layer of width 1,024 that costs as much as the product itself. torch carries oneDNN's fused products for its
compiler; they are called here directly, on the module's own weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.batching import triton_wanted

FUSED_TYPES = (torch.float32, torch.bfloat16)
HALF_TYPES = (torch.float16, torch.bfloat16)
MANY = 2**14
"""Rows from which a program of ours is faster on a GPU than two operations."""


class Rows(NamedTuple):
    """Some of a linear map's rows."""

    weight: Tensor
    bias: Tensor | None


def rows_of(modules: Sequence[nn.Linear], number: int, of: int = 3) -> Rows:
    """Map `number` of `of`, which are modules of their own or equal parts of one."""
    if len(modules) == of:
        return Rows(modules[number].weight, modules[number].bias)
    size = modules[0].out_features // of
    part, bias = slice(number * size, (number + 1) * size), modules[0].bias
    return Rows(modules[0].weight[part], None if bias is None else bias[part])


def linear_then(module: nn.Linear, activation: Callable[[Tensor], Tensor], x: Tensor, fused: bool = True) -> Tensor:
    """activation(module(x))."""
    name = _fused_name(activation) if fused else None
    if name is not None and _has_program(module, x):
        from unmask.models.encoder.triton_programs import linear_activated

        return linear_activated(module, name, x)
    if name is None or not _fusible(module.weight, x):
        return activation(module(x))
    activated: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, name, [], "none")
    return activated


def gated(modules: Sequence[nn.Linear], activation: Callable[[Tensor], Tensor], x: Tensor, fused: bool = True) -> Tensor:
    """activation(G x) * (U x), the two maps of their own or halves of one."""
    name = _fused_name(activation) if fused else None
    if name is not None and _has_program(modules[0], x):
        from unmask.models.encoder.triton_programs import linear_activated

        whole = len(modules) == 1
        opened = linear_activated(modules[0], name, x, gates=whole)
        return opened if whole else opened.mul_(modules[1](x))
    gate, up = (rows_of(modules, number, 2) for number in range(2))
    if name is None or not _fusible(gate.weight, x):
        first, second = [module(x) for module in modules] if len(modules) == 2 else modules[0](x).chunk(2, -1)
        return activation(first) * second
    opened = torch.ops.mkldnn._linear_pointwise(x, gate.weight, gate.bias, name, [], "none")
    product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, opened, up.weight, up.bias, "mul")
    return product


def linear_plus(module: nn.Linear | Rows, x: Tensor, residual: Tensor | None = None, fused: bool = True) -> Tensor:
    """module(x) + residual."""
    if not fused or not _fusible(module.weight, x):
        product = functional.linear(x, module.weight, module.bias)
        return product if residual is None else product.add_(residual)
    if residual is None:
        total: Tensor = torch.ops.mkldnn._linear_pointwise(x, module.weight, module.bias, "none", [], "none")
    else:
        total = torch.ops.mkldnn._linear_pointwise.binary(x, residual, module.weight, module.bias, "add")
    return total


def _fused_name(activation: Callable[[Tensor], Tensor]) -> str | None:
    plain = getattr(activation, "act", activation)
    if isinstance(activation, nn.ReLU):
        return "relu"
    if type(activation).__name__ in ("SiLU", "SiLUActivation"):
        return "swish"
    if plain is functional.gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    return None


def half_precision_on_gpu(x: Tensor) -> bool:
    """Whether the programs of `triton_programs` work on this tensor."""
    return x.dtype in HALF_TYPES and triton_wanted(x)


def _has_program(module: nn.Linear, x: Tensor) -> bool:
    """Whether there are rows enough on a GPU that a program with an activation within is made for."""
    if x.numel() < MANY * x.shape[-1] or not half_precision_on_gpu(x):
        return False
    from unmask.models.encoder.triton_programs import serves

    return serves(module, x)


def _fusible(weight: Tensor, x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype in FUSED_TYPES
        and x.dtype == weight.dtype
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (x.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
