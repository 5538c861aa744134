"""The settings of a run that decide its numbers; two runs with equal settings and data give equal weights on one machine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

from unmask.errors import InputError
from unmask.training.losses import LossName
from unmask.training.masking import parse_replacement, parse_scheme
from unmask.training.optimiser import OptimiserName

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class TrainSettings:
    """Shape, data cut, objective and optimisation. Fields are named as the command's options are."""

    layers: int = 6
    width: int = 256
    heads: int = 4
    vocab: int = 8192
    max_length: int = 128
    segment_lengths: tuple[int, ...] = (24, 64, 128)
    buckets: tuple[int, ...] = (128,)
    masking: str = "uniform:0.05-0.45"
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
    init: str = ""
    data: str = ""

    def __post_init__(self) -> None:
        parse_scheme(self.masking)
        parse_replacement(self.replacement)
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of {self.heads} heads: change --width or --heads")
        for name in ("layers", "width", "heads", "batch_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{option(name)} {getattr(self, name)}: give a positive number")
        if self.vocab < 64:
            raise InputError(f"--vocab {self.vocab}: give at least 64")
        if not self.buckets or list(self.buckets) != sorted(set(self.buckets)) or self.buckets[-1] != self.max_length:
            raise InputError(f"buckets {list(self.buckets)}: give rising lengths that end with --max-length {self.max_length}")
        if any(b % 8 for b in self.buckets) or self.max_length < 8:
            raise InputError(f"buckets {list(self.buckets)}: give multiples of 8")
        if not self.segment_lengths or not all(4 <= n <= self.max_length for n in self.segment_lengths):
            raise InputError(
                f"segment lengths {list(self.segment_lengths)}: give numbers from 4 to --max-length {self.max_length}"
            )
        if self.loss not in ("factorised", "block"):
            raise InputError(f'loss "{self.loss}" is unknown: give factorised or block')
        if self.optimiser not in ("adamw", "muon"):
            raise InputError(f'optimiser "{self.optimiser}" is unknown: give adamw or muon')
        if self.precision not in get_args(Precision):
            raise InputError(f'precision "{self.precision}" is unknown: give auto, float32 or bfloat16')
        if not (self.lr > 0 and self.clip > 0 and self.compatibility >= 0 and 0 <= self.weight_decay < 1 and 0 < self.beta2 < 1):
            raise InputError(
                "--lr and --clip must be above 0, --compatibility at least 0, --weight-decay and --beta2 between 0 and 1"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}


def option(name: str) -> str:
    """The command-line option of a field."""
    return "--" + name.replace("_", "-")


def refuse_other_settings(wanted: TrainSettings, stored: dict[str, Any], where: str) -> None:
    """A resumed run must have the settings it was started with; name the first that differ."""
    different = [
        f"{option(name) if name != 'data' else 'corpus, tokenizer or segmentation'} (was {stored.get(name)}, now {value})"
        for name, value in wanted.to_dict().items()
        if stored.get(name) != value
    ]
    if different:
        raise InputError(
            f"cannot resume {where} with other settings: {'; '.join(different)}; give the old ones, or another --out"
        )
