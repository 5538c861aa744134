"""Equal commands give equal bits on one kind of device, a GPU included.

Floating-point sums depend on their order. On a GPU many threads add to one number by atomic
additions, in the order in which they happen to arrive, and compiled code chooses among equivalent
programs by a stopwatch. Within `one_order` torch sums in a fixed order or raises, and
`compile_options` choose compiled code by rule.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
FIXED_WORKSPACES = (":4096:8", ":16:8")
"""cuBLAS reads it: matrix products are reproducible in workspaces of fixed number and size."""


@contextmanager
def one_order(device: torch.device) -> Iterator[None]:
    """Sums in a fixed order; on a GPU also TF32 products, and attention with a reproducible
    gradient. All settings are restored afterwards, except cuBLAS's workspace.
    """
    on_gpu = device.type == "cuda"
    if on_gpu and os.environ.get(WORKSPACE) not in FIXED_WORKSPACES:
        os.environ[WORKSPACE] = FIXED_WORKSPACES[0]
    deterministic: Any = torch.utils.deterministic
    were_deterministic = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled_memory = deterministic.fill_uninitialized_memory
    precision = torch.get_float32_matmul_precision()
    used_cudnn_attention = torch.backends.cuda.cudnn_sdp_enabled()

    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False  # else each new tensor is filled first
    if on_gpu:
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(were_deterministic, warn_only=only_warned)
        deterministic.fill_uninitialized_memory = filled_memory
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.enable_cudnn_sdp(used_cudnn_attention)


def compile_options() -> dict[str, Any]:
    """Options of torch.compile that keep measured times from deciding the order of sums."""
    if "deterministic" in torch._inductor.list_options():
        return {"deterministic": True}
    return {"shape_padding": False}  # an older torch measures whether padding a matrix is worth it
