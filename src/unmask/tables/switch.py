"""Whether Triton's programs serve: the one place that reads the switch."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

from torch import Tensor

from unmask.checks import one_of

SWITCH = "UNMASK_TRITON"
"""Environment variable: auto (the default), off for plain operations everywhere, on for Triton on every device (interpreted on a
CPU)."""


def triton_wanted(tensor: Tensor) -> bool:
    """Whether programs are to read or write this tensor."""
    wanted = one_of(SWITCH, os.environ.get(SWITCH, "auto"), ("auto", "on", "off"))
    return wanted == "on" or (wanted == "auto" and tensor.is_cuda and _installed())


@cache
def _installed() -> bool:
    return find_spec("triton") is not None
