"""The devices that work runs on, by the names that a user gives: auto, cpu, cuda or cuda:N."""

from __future__ import annotations

import torch

from unmask.common.checks import shown
from unmask.common.errors import ModelError, argument_name

DEVICE = argument_name("device")
REMEDY = "use auto, cpu, cuda or cuda:N"


def resolve_device(device: object) -> torch.device:
    """The device that a name stands for; "auto" is CUDA if torch sees a GPU, else the CPU.

    Raises ModelError for a device that unmask does not run on, or that this machine lacks.
    """
    if not isinstance(device, str | torch.device):
        raise ModelError(f"{DEVICE} {shown(device)} is not known: {REMEDY}")
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("cpu")
    if "," in str(device):
        raise ModelError(
            f"{DEVICE} {device!r} is a list, for score, evaluate, sample and translate: use one"
            " here"
        )
    try:
        resolved = torch.device(device)
    except (RuntimeError, ValueError):  # torch's errors for a name that it does not know
        raise ModelError(f"{DEVICE} {device!r} is not known: {REMEDY}") from None
    if resolved.type == "cpu" and not resolved.index:  # "cpu:0" is the CPU, "cpu:1" is no device
        return torch.device("cpu")
    if resolved.type != "cuda":
        raise ModelError(f"{DEVICE} {str(device)!r} is not one that unmask runs on: {REMEDY}")
    if not torch.cuda.is_available():
        raise ModelError(
            f"{DEVICE} {str(device)!r} was asked for, but this torch sees no CUDA device: use cpu"
        )
    number = resolved.index or 0  # of "cuda" torch takes the current GPU: the first, by default
    if number >= torch.cuda.device_count():
        raise ModelError(
            f"{DEVICE} {str(device)!r} was asked for, and there are {torch.cuda.device_count()},"
            " from cuda:0: use one"
        )
    return resolved
