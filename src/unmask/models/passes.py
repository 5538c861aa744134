"""How a network is run: without gradients, and on a GPU without cuDNN's attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def passes() -> Iterator[None]:
    """For passes of a network, as a block or a decorator.

    cuDNN plans its attention anew for every length of text, torch's other kernels do not. The setting is the process's, so it is
    given back to whatever else runs there.
    """
    planned = torch.backends.cuda.cudnn_sdp_enabled()
    if planned:
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.no_grad():
            yield
    finally:
        if planned:
            torch.backends.cuda.enable_cudnn_sdp(True)
