"""The settings of a run that decide its numbers: equal settings and data give equal weights on one kind of device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from unmask import checks
from unmask.errors import InputError
from unmask.training.losses import LossName
from unmask.training.masking import parse_replacement, parse_scheme
from unmask.training.optimiser import OptimiserName

ObjectiveName = Literal["masked", "causal"]
Precision = Literal["auto", "float32", "bfloat16"]
MANY = 10**9
"""More steps, rows or tokens than anyone waits for."""
NAMES = {
    "objective": ("masked", "causal"),
    "loss": ("factorised", "block"),
    "optimiser": ("muon", "adamw"),
    "precision": ("auto", "float32", "bfloat16"),
}
COUNTS = {
    "layers": (1, 1024),
    "width": (1, 1 << 16),
    "heads": (1, 1 << 10),
    "vocab": (1, 1 << 24),
    "max_length": (8, 1 << 16),
    "compatibility_rows": (0, MANY),
    "warmup": (0, MANY),
    "steps": (0, MANY),
    "batch_tokens": (8, MANY),
    "seed": (0, 2**63 - 1),
}
"""Least and most of each whole number."""
MASKED_ONLY = ("masking", "replacement", "loss", "compatibility", "compatibility_rows", "mask_source", "refinement")
PAIRS_ONLY = ("mask_source", "refinement")
PLAIN_MASKING, PAIRS_MASKING = "uniform:0.05-0.45", "uniform:0-1"
"""Where none is given. In translations every number of masked tokens is equally likely, none and all included."""
REALS = {
    "compatibility": (0.0, 1e6, False),
    "lr": (0.0, 10.0, True),
    "weight_decay": (0.0, 1.0, False),
    "beta2": (0.0, 0.999999, True),
    "clip": (0.0, 1e6, True),
    "dropout": (0.0, 0.9, False),
    "label_smoothing": (0.0, 0.9, False),
    "mask_source": (0.0, 0.9, False),
    "refinement": (0.0, 1e3, False),
}
"""Least and most of the others, and whether the least itself is excluded."""


@dataclass(frozen=True)
class TrainSettings:
    """Shape, data cut, objective and optimisation. Fields are named as the command's options are.

    parallel   whether texts are pairs of a source and its translation, each with half of max_length
    """

    layers: int = 6
    width: int = 256
    heads: int = 4
    vocab: int = 8192
    max_length: int = 128
    segment_lengths: tuple[int, ...] = (24, 64, 128)
    buckets: tuple[int, ...] = (128,)
    objective: ObjectiveName = "masked"
    masking: str = PLAIN_MASKING
    replacement: str = "1,0,0"
    loss: LossName = "factorised"
    compatibility: float = 0.0
    compatibility_rows: int = 0
    optimiser: OptimiserName = "muon"
    lr: float = 4e-3
    warmup: int = 500
    steps: int = 0
    batch_tokens: int = 65536
    weight_decay: float = 0.01
    beta2: float = 0.98
    clip: float = 1.0
    precision: Precision = "auto"
    seed: int = 0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    parallel: bool = False
    mask_source: float = 0.0
    refinement: float = 0.0

    def __post_init__(self) -> None:
        for name, (least, most) in COUNTS.items():
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), least, most))
        for name, known in NAMES.items():
            checks.one_of(name, getattr(self, name), known)
        for name, (low, high, above) in REALS.items():
            object.__setattr__(self, name, checks.real(name, getattr(self, name), low, high, above))
        for field in dataclasses.fields(self):
            if self.objective == "causal" and field.name in MASKED_ONLY and getattr(self, field.name) != field.default:
                raise InputError(f"{field.name} belongs to masked models: leave it out, or --objective causal")
        for name in PAIRS_ONLY:
            if getattr(self, name) and not self.parallel:
                raise InputError(f"{name} belongs to models that translate: leave it out, or give --parallel SOURCE TARGET")
        parse_scheme(self.masking)
        parse_replacement(self.replacement)
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of {self.heads} heads: change --width or --heads")
        self._check_lengths()

    def _check_lengths(self) -> None:
        if self.max_length % 8:
            near = 8 * (self.max_length // 8 + 1)
            raise InputError(f"max_length {self.max_length} is not a multiple of 8: give one, such as {near}")
        for name, least in (("segment_lengths", 4), ("buckets", 8)):
            values = tuple(checks.whole(name, value, least, self.max_length) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise InputError(f"{name} is empty: give whole numbers from {least} to --max-length {self.max_length}")
        rising = list(self.buckets) == sorted(set(self.buckets)) and self.buckets[-1] == self.max_length
        if not rising or any(length % 8 for length in self.buckets):
            raise InputError(
                f"buckets {','.join(map(str, self.buckets))} cannot be: "
                f"give rising multiples of 8 that end with --max-length {self.max_length}"
            )

    @property
    def source_length(self) -> int:
        """Tokens of a source's room in a pair; 0 for plain text."""
        return self.max_length // 2 if self.parallel else 0

    @property
    def corrects(self) -> bool:
        """Whether the model is asked for tokens where it sees others, which may be wrong."""
        return self.refinement > 0 or parse_replacement(self.replacement).random > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}
        left_out = (*(() if self.objective == "masked" else MASKED_ONLY), *(() if self.parallel else ("parallel", *PAIRS_ONLY)))
        return {k: v for k, v in given.items() if k not in left_out}
