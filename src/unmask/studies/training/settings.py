"""The settings of a run that decide its numbers.

Equal settings and data give equal weights on one kind of device. `choosing` has the settings that
the data and the device suggest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from unmask.common.errors import InputError, argument_name
from unmask.models.batching import whole_memory
from unmask.studies.training.masking.scheme import MaskingScheme
from unmask.studies.training.masking.schemes import UniformRate

PLAIN_MASKING = UniformRate(low=0.05, high=0.45)
"""Masking of texts, where none is named."""
PAIRS_MASKING = UniformRate(low=0.0, high=1.0)
"""Masking of pairs, where none is named: every number of masked tokens of a translation is equally
likely, none and all included."""
SEGMENTS = (24, 64)
"""Lengths in tokens that lines are cut to, beside max_length."""
MASKED_ONLY = ("masking", "loss")
PAIRS_ONLY = ("mask_source", "refinement")  # of masked models, too


@dataclass(frozen=True)
class TrainSettings:
    """Shape, objective and optimisation of a run: all that decides its weights beside the data.

    `choosing` checks them, once.

    steps      of the run; 0 until they are chosen
    parallel   whether texts are pairs of a source and its translation, each with half of max_length
    """

    layers: int = 6
    width: int = 256
    heads: int = 4
    vocab: int = 8192
    max_length: int = 128
    objective: Literal["masked", "causal"] = "masked"
    masking: MaskingScheme = PLAIN_MASKING
    loss: Literal["factorised", "block"] = "factorised"
    optimiser: Literal["muon", "adamw"] = "muon"
    lr: float = 4e-3
    steps: int = 0
    warmup: int = 500
    batch_tokens: int = 65536
    seed: int = 0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    mask_source: float = 0.0
    refinement: float = 0.0
    parallel: bool = False

    @property
    def source_length(self) -> int:
        """Tokens of a source's room in a pair; 0 for plain text."""
        return self.max_length // 2 if self.parallel else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values that apply to this objective and this kind of corpus, for JSON and
        checkpoints.
        """
        unused: set[str] = set()
        if self.objective != "masked":
            unused.update(MASKED_ONLY, PAIRS_ONLY)
        if not self.parallel:
            unused.update(("parallel",), PAIRS_ONLY)
        values = {name: value for name, value in vars(self).items() if name not in unused}
        if "masking" in values:
            values["masking"] = self.masking.spelling
        return values

    def __plain__(self) -> dict[str, Any]:
        """The settings inside the JSON of a result."""
        return self.to_dict()


def refuse_what_does_not_fit(
    settings: TrainSettings, device: torch.device, processes: int = 1, has_start: bool = False
) -> None:
    """Raise InputError, before any allocation, if weights, gradients, moments and attention
    masks alone exceed the memory.

    has_start   the run starts from a model, whose shape is fixed
    """
    width = settings.width
    of_a_layer = 12 * width**2 + 13 * width  # 4 + 8 matrices of width^2; biases and two norms
    of_embeddings = (settings.vocab + settings.max_length) * width
    of_head = width**2
    parameters = of_embeddings + of_head + settings.layers * of_a_layer
    bytes_of_parameters = 16 * parameters  # float32: a weight, its gradient and two moments
    # For every two tokens of a row a truth value, and a float32 that attention adds.
    bytes_of_masks = 5 * settings.batch_tokens * settings.max_length / processes
    needed = bytes_of_parameters + bytes_of_masks
    memory = whole_memory(device)
    if needed > memory:
        smaller = argument_name("batch_tokens")
        if not has_start:
            of_shape = ", ".join(argument_name(name) for name in ("layers", "width", "vocab"))
            smaller = f"{of_shape} or {smaller}"
        raise InputError(
            f"{parameters:,} parameters and batches of {settings.batch_tokens:,} tokens take at"
            f" least {needed // 1e9:,.0f} GB to train, and {device} has {memory / 1e9:,.0f} GB:"
            f" give smaller {smaller}"
        )
