"""One order of summation, so that equal commands give equal bits on one kind of device, a GPU included.

Floating-point sums depend on their order. On a GPU many threads add to one number by atomic additions, in the order in which
they happen to arrive, and compiled code chooses among equivalent programs by a stopwatch. Within `one_order` torch sums in a
fixed order or refuses, and compiled code is chosen by rule. What would be slow that way is written without such sums: rows are
looked up outside compiled code, where the gradient of a table sorts its rows, and the gradient of gathered rows is a gather
(`encoder`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

WORKSPACE, FIXED_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")
"""Read by cuBLAS: matrix products in workspaces of a fixed number and size are reproducible."""


@contextmanager
def one_order(device: torch.device) -> Iterator[None]:
    """Sums in a fixed order, and on a GPU TF32 products and attention whose gradient has one; all restored afterwards."""
    if device.type == "cuda" and os.environ.get(WORKSPACE) not in FIXED_WORKSPACES:
        os.environ[WORKSPACE] = FIXED_WORKSPACES[0]
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    deterministic: Any = torch.utils.deterministic
    filled, precision = deterministic.fill_uninitialized_memory, torch.get_float32_matmul_precision()
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        deterministic.fill_uninitialized_memory = filled
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.enable_cudnn_sdp(cudnn)


def compile_options() -> dict[str, Any]:
    """Options of torch.compile with which no measured time decides how numbers are added up."""
    known = torch._inductor.list_options()
    return {"deterministic": True} if "deterministic" in known else {"shape_padding": False}
