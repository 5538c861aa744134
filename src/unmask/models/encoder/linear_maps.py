"""Linear maps with what follows them: an activation, gates, or a sum, in one operation each.

On a CPU the plain `linear` writes the bias, then the product, then reads all of it again for the
activation, which costs as much as the product itself. torch carries oneDNN's fused products for
its compiler; they are called here directly, on the module's own weights. On a GPU, Triton
programs do the same (`triton_programs`). Elsewhere, and with `fused` false, torch's plain
operations compute the same; they are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.batching import triton_wanted

FUSED_TYPES = (torch.float32, torch.bfloat16)  # Of oneDNN's products
HALF_TYPES = (torch.float16, torch.bfloat16)
MANY = 2**14  # Rows from which a program of ours is faster on a GPU than two operations


class Rows(NamedTuple):
    """Some of a linear map's rows."""

    weight: Tensor
    bias: Tensor | None


def rows_of(modules: Sequence[nn.Linear], number: int, of: int = 3) -> Rows:
    """Map `number` of `of`, which are modules of their own or equal parts of one."""
    if len(modules) == of:
        return Rows(modules[number].weight, modules[number].bias)
    module = modules[0]
    size = module.out_features // of
    part = slice(number * size, (number + 1) * size)
    return Rows(module.weight[part], None if module.bias is None else module.bias[part])


def activated(
    module: nn.Linear,
    activation: Callable[[Tensor], Tensor],
    x: Tensor,
    gates: bool = False,
    fused: bool = True,
) -> Tensor:
    """activation(W x); or with gates activation(G x) * (U x), the two maps halves of one."""
    name = _fused_name(activation) if fused else None
    if name is not None and _by_program(module, x):
        return programs().linear_activated(module, name, x, gates)
    if name is not None and _fusible(module.weight, x):
        return _activated_by_onednn(module, name, x, gates)
    product = module(x)
    if not gates:
        return activation(product)
    of_gates, of_others = product.chunk(2, -1)
    return activation(of_gates) * of_others


def _activated_by_onednn(module: nn.Linear, name: str, x: Tensor, gates: bool) -> Tensor:
    """`activated` with the activation of this name in oneDNN."""
    if not gates:
        return _onednn_product(module, x, name)
    opened = _onednn_product(rows_of((module,), 0, of=2), x, name)
    return _onednn_with(rows_of((module,), 1, of=2), x, opened, "mul")


def linear_plus(
    module: nn.Linear | Rows, x: Tensor, residual: Tensor | None = None, fused: bool = True
) -> Tensor:
    """module(x) + residual."""
    if fused and residual is None and x.dtype == torch.float32 and _by_program(module, x):
        return programs().linear_activated(module, "none", x)
    if not fused or not _fusible(module.weight, x):
        product = functional.linear(x, module.weight, module.bias)
        return product if residual is None else product.add_(residual)
    if residual is None:
        return _onednn_product(module, x, "none")
    return _onednn_with(module, x, residual, "add")


def _onednn_product(module: nn.Linear | Rows, x: Tensor, activation: str) -> Tensor:
    """activation(module(x))."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(
        x, module.weight, module.bias, attr=activation, scalars=[], algorithm="none"
    )
    return product


def _onednn_with(module: nn.Linear | Rows, x: Tensor, other: Tensor, operation: str) -> Tensor:
    """module(x) + other, or module(x) * other: `operation` is "add" or "mul"."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
        x, other, module.weight, module.bias, attr=operation
    )
    return result


def _fused_name(activation: Callable[[Tensor], Tensor]) -> str | None:
    """The name of an activation in oneDNN and in our programs; None if it has none."""
    if isinstance(activation, nn.ReLU):
        return "relu"
    if type(activation).__name__ in ("SiLU", "SiLUActivation"):
        return "swish"
    if isinstance(activation, nn.GELU) and activation.approximate == "none":
        return "gelu"
    function = getattr(activation, "act", activation)  # GELUActivation of transformers holds it
    return "gelu" if function is functional.gelu else None


def _fusible(weight: Tensor, x: Tensor) -> bool:
    """Whether oneDNN has fused products for such tensors here."""
    return (
        x.device.type == "cpu"
        and x.dtype in FUSED_TYPES
        and x.dtype == weight.dtype
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (x.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


def on_gpu(x: Tensor) -> bool:
    """Whether the programs of `triton_programs` work on this tensor."""
    if not triton_wanted(x):
        return False
    if x.dtype == torch.float32:
        return bool(programs().read_float32(x.device))
    return x.dtype in HALF_TYPES


def _by_program(module: nn.Linear | Rows, x: Tensor) -> bool:
    """Whether a linear map of so many rows is faster by a program of ours."""
    return x.numel() >= MANY * x.shape[-1] and on_gpu(x) and programs().serves(module, x)


def programs() -> Any:
    """`triton_programs`, imported when a GPU needs it."""
    from unmask.models.encoder import triton_programs

    return triton_programs
