"""How large a model is by default, what a model to start from fixes, and whether it fits in memory."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from unmask import checks
from unmask.errors import InputError
from unmask.options.training import MOST_TOKENS
from unmask.training.settings import TrainSettings


class Preset(NamedTuple):
    """A shape, with the batch and the learning rate that suit it."""

    layers: int
    width: int
    heads: int
    vocab: int
    batch_tokens: int
    lr: float


SIZES = {
    "tiny": Preset(2, 128, 2, 4096, 2048, 4e-3),
    "small": Preset(6, 256, 4, 8192, 65536, 4e-3),
    "base": Preset(12, 768, 12, 28672, 65536, 1e-3),
}
TRAINED_VOCAB = (64, MOST_TOKENS)
"""Least and most tokens of a tokenizer that is trained; with --init the model's own number, whatever it is, is taken."""
FIXED_BY_A_MODEL = ("layers", "width", "heads", "vocab")


def choose(size: str, device: torch.device, given: dict[str, Any], init: dict[str, int] | None, name: str = "") -> dict[str, Any]:
    """Every field of a preset: as `given`, else as in the model to start from (`init`, at `name`), else as in the size."""
    preset = SIZES[("small" if device.type == "cuda" else "tiny") if size == "auto" else size]
    chosen = preset._asdict()
    for option, value in given.items():
        fixed = init[option] if init and option in FIXED_BY_A_MODEL else None
        if fixed is not None and value not in (None, fixed):
            raise InputError(f"{option} {value} was given, but {name} has {fixed}: leave out --{option}, or --init")
        chosen[option] = value if value is not None else chosen[option] if fixed is None else fixed
    if init is None:
        checks.whole("vocab", chosen["vocab"], *TRAINED_VOCAB)
    return chosen


def refuse_what_does_not_fit(settings: TrainSettings, device: torch.device) -> None:
    """Say so before anything is allocated if weights, gradients, moments and attention masks alone exceed the memory."""
    layer = 12 * settings.width**2 + 13 * settings.width
    count = (settings.vocab + settings.max_length + settings.width) * settings.width + settings.layers * layer
    needed = 16 * count + 5 * settings.batch_tokens * settings.max_length
    there = _memory(device)
    if needed > there:
        raise InputError(
            f"{count:,} parameters and batches of {settings.batch_tokens:,} tokens take at least {needed // 1e9:,.0f} GB "
            f"to train, and {device} has {there / 1e9:,.0f} GB: give smaller --layers, --width, --vocab or --batch-tokens"
        )


def _memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
