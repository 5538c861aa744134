"""The settings of a run that decide its numbers: equal settings and data give equal weights on one kind of device.

`choose_shape` fills in a preset, or the shape of a model to start from; `refuse_what_does_not_fit` compares it with the memory.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from unmask import checks
from unmask.errors import InputError
from unmask.options.training import MASKED_ONLY, MOST_TOKENS, PAIRS_ONLY, Training
from unmask.training.masking import parse_replacement, parse_scheme


@dataclass(frozen=True)
class TrainSettings(Training):
    """Shape, data cut, objective and optimisation: the options of `unmask train` that decide the weights.

    parallel   whether texts are pairs of a source and its translation, each with half of max_length
    """

    parallel: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_scheme(self.masking)
        parse_replacement(self.replacement)
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of {self.heads} heads: change --width or --heads")
        self._check_lengths()

    def _check_lengths(self) -> None:
        if self.max_length % 8:
            near = 8 * (self.max_length // 8 + 1)
            raise InputError(f"max_length {self.max_length} is not a multiple of 8: give one, for example {near}")
        for name, least in (("segment_lengths", 4), ("buckets", 8)):
            values = tuple(checks.whole(name, value, least, self.max_length) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise InputError(f"{name} is empty: give whole numbers from {least} to --max-length {self.max_length}")
        rising = list(self.buckets) == sorted(set(self.buckets)) and self.buckets[-1] == self.max_length
        if not rising or any(length % 8 for length in self.buckets):
            raise InputError(
                f"buckets {','.join(map(str, self.buckets))} are invalid: "
                f"give rising multiples of 8 that end with --max-length {self.max_length}"
            )

    @property
    def source_length(self) -> int:
        """Tokens of a source's room in a pair; 0 for plain text."""
        return self.max_length // 2 if self.parallel else 0

    @property
    def corrects(self) -> bool:
        """Whether training shows the model wrong tokens and asks for the right ones."""
        return self.refinement > 0 or parse_replacement(self.replacement).random > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}
        left_out = (*(() if self.objective == "masked" else MASKED_ONLY), *(() if self.parallel else ("parallel", *PAIRS_ONLY)))
        return {k: v for k, v in given.items() if k not in left_out}


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
"""Least and most tokens of a tokenizer that is trained; --init takes the model's own number instead."""
FIXED_BY_A_MODEL = ("layers", "width", "heads", "vocab")


def choose_shape(
    size: str, device: torch.device, given: dict[str, Any], init: dict[str, int] | None, name: str = ""
) -> dict[str, Any]:
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
    """Raise InputError, before any allocation, if weights, gradients, moments and attention masks alone exceed the memory."""
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
