"""The settings of a run that decide its numbers: as given, or as the data and the device
suggest (docs/training.md has the rule).

Equal settings and data give equal weights on one kind of device. Texts of B bytes count as B /
4 tokens until they are tokenised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from unmask.common.errors import InputError
from unmask.common.results import Result
from unmask.models.batching import whole_memory
from unmask.studies.training.batches import BatchPlan
from unmask.studies.training.objectives import parse_scheme
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.processes import ALONE, Processes
from unmask.studies.training.recipe import Causal, Masked, Optimisation, Shape

if TYPE_CHECKING:
    from unmask.studies.training.encoder import Start

BYTES_PER_TOKEN = 4
TOKENS = {"cuda": 200_000_000, "cpu": 10_000_000}
"""How many tokens a run shows at most, epochs together, unless 3 epochs are more."""
FEW_EPOCHS, MANY_EPOCHS = 3.0, 48.0
LEAST_STEPS, MOST_STEPS, STEPS_PER_EPOCH = 400, 10**9, 50
LEAST_BATCH, LEAST_VOCAB = 512, 256
USES_OF_A_TOKEN = 8
"""Estimated tokens of the corpus for each token of the vocabulary, at least. Held-out nats per
character were lowest at 4.5 and 7.5 for 300 and 1,000 captions, and much higher at 15 to 60
(bench/vocabulary.py; the table is in docs/training.md)."""
MASKED_SOURCE = 0.1
PLAIN_MASKING, PAIRS_MASKING = "uniform:0.05-0.45", "uniform:0-1"
"""Where none is named. In translations every number of masked tokens is equally likely, none
and all included.
"""
SEGMENTS = (24, 64)
"""Lengths that lines are cut to, beside max_length."""
BY_SIZE = ("layers", "width", "heads", "vocab", "batch_tokens", "lr")
SIZES: dict[str, dict[str, Any]] = {
    "mini": dict(zip(BY_SIZE, (2, 64, 2, 1024, 1024, 8e-3), strict=True)),
    "tiny": dict(zip(BY_SIZE, (2, 128, 2, 4096, 2048, 4e-3), strict=True)),
    "small": dict(zip(BY_SIZE, (6, 256, 4, 8192, 65536, 4e-3), strict=True)),
    "medium": dict(zip(BY_SIZE, (6, 384, 6, 8192, 16384, 2.5e-3), strict=True)),
    "base": dict(zip(BY_SIZE, (12, 768, 12, 28672, 65536, 1e-3), strict=True)),
}
"""Shapes, each with the batch and the learning rate that suit it."""
LEAST_TRAINED = 64
"""Tokens of a tokenizer that is trained, at least; --init takes the model's own number instead."""
FIXED_BY_A_MODEL = ("layers", "width", "heads", "vocab")
CHOSEN = (
    "layers",
    "width",
    "heads",
    "vocab",
    "batch_tokens",
    "lr",
    "dropout",
    "mask_source",
    "steps",
)
"""Settings that are chosen, in the order in which a run names them."""
MASKED_ONLY = ("masking", "loss")
PAIRS_ONLY = ("mask_source", "refinement")


@dataclass(frozen=True)
class TrainSettings(Result):
    """Shape, objective and optimisation of a run: all that decides its weights beside the data.

    parallel   whether texts are pairs of a source and its translation, each with half of max_length
    """

    layers: int = 6
    width: int = 256
    heads: int = 4
    vocab: int = 8192
    max_length: int = 128
    objective: Literal["masked", "causal"] = "masked"
    masking: str = PLAIN_MASKING
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

    def __post_init__(self) -> None:
        parse_scheme(self.masking)
        if self.width % self.heads:
            raise InputError(
                f"width {self.width} is not a multiple of {self.heads} heads: change --width or"
                " --heads"
            )
        if self.max_length % 8:
            near = 8 * (self.max_length // 8 + 1)
            raise InputError(
                f"max_length {self.max_length} is not a multiple of 8: give one, for example {near}"
            )

    @property
    def source_length(self) -> int:
        """Tokens of a source's room in a pair; 0 for plain text."""
        return self.max_length // 2 if self.parallel else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values that apply to this objective and this kind of corpus, for JSON and
        checkpoints.
        """
        unused = {*(() if self.objective == "masked" else (*MASKED_ONLY, *PAIRS_ONLY))}
        unused |= {*(() if self.parallel else ("parallel", *PAIRS_ONLY))}
        return {name: value for name, value in vars(self).items() if name not in unused}


def refuse_what_does_not_fit(
    settings: TrainSettings, device: torch.device, processes: int = 1
) -> None:
    """Raise InputError, before any allocation, if weights, gradients, moments and attention
    masks alone exceed the memory.
    """
    layer = 12 * settings.width**2 + 13 * settings.width
    count = (
        settings.vocab + settings.max_length + settings.width
    ) * settings.width + settings.layers * layer
    needed = 16 * count + 5 * settings.batch_tokens * settings.max_length / processes
    memory = whole_memory(device)
    if needed > memory:
        raise InputError(
            f"{count:,} parameters and batches of {settings.batch_tokens:,} tokens take at least"
            f" {needed // 1e9:,.0f} GB to train, and {device} has {memory / 1e9:,.0f} GB: give"
            " smaller --layers, --width, --vocab or --batch-tokens"
        )


@dataclass(frozen=True)
class Data:
    """A corpus and the device that trains on it: tokens in an epoch, whether they are pairs,
    and "cpu" or "cuda".
    """

    tokens: float
    pairs: bool
    device: str

    @property
    def size(self) -> str:
        """The size that suits it."""
        if self.tokens < 20_000:
            return "mini"
        if self.device != "cuda" or self.tokens < 100_000:
            return "tiny"
        return "medium" if self.pairs else "small"


def _power_of_two(most: float, least: int) -> int:
    """The largest power of two that is at most `most`, and not below `least`."""
    return max(least, 1 << max(0, int(most).bit_length() - 1))


def suited_vocab(data: Data) -> int:
    """The size of the vocabulary that suits a corpus, before its texts are tokenised."""
    return min(SIZES[data.size]["vocab"], _power_of_two(data.tokens / USES_OF_A_TOKEN, LEAST_VOCAB))


def choose(
    shape: Shape,
    objective: Masked | Causal,
    optimisation: Optimisation,
    seed: int,
    data: Data,
    start: Start | None,
) -> TrainSettings:
    """The settings before the rows are known: as the user chose, else as in the model to start
    from, else by the size.
    """
    chosen = dict(SIZES[data.size if shape.size == "auto" else shape.size])
    if shape.size == "auto":
        chosen["vocab"] = suited_vocab(data)
    if start:
        chosen |= start.shape
    for name in FIXED_BY_A_MODEL:
        value = getattr(shape, name)
        if start and value not in (None, chosen[name]):
            raise InputError(
                f"{name} {value} was given, but {start.folder} has {chosen[name]}: leave out"
                f" --{name}, or --init"
            )
        chosen[name] = chosen[name] if value is None else value
    if start is None and chosen["vocab"] < LEAST_TRAINED:
        raise InputError(
            f"vocab {chosen['vocab']} is out of range: give a whole number, at least"
            f" {LEAST_TRAINED}"
        )
    options = {**vars(objective), **vars(optimisation), "max_length": shape.max_length}
    chosen |= {
        name: value for name, value in options.items() if value is not None and name != "epochs"
    }
    if isinstance(objective, Masked) and objective.masking is None and data.pairs:
        chosen["masking"] = PAIRS_MASKING
    return TrainSettings(**chosen, objective=objective.name, seed=seed, parallel=data.pairs)  # type: ignore[arg-type]


def settle(
    settings: TrainSettings,
    packed: PackedRows,
    data: Data,
    options: Mapping[str, Any],
    processes: Processes = ALONE,
) -> TrainSettings:
    """The settings with batch, steps, warm-up, dropout and masking of sources, as the user
    chose (`options`) or for these rows.

    The warm-up is at most a tenth of the steps.
    """
    batch = settings.batch_tokens
    if options["size"] == "auto" and options["batch_tokens"] is None and len(packed.ids):
        few = min(batch, _power_of_two(data.tokens / STEPS_PER_EPOCH, LEAST_BATCH), packed.ids.size)
        batch = max(few, processes.size * packed.length)
    plan = BatchPlan(packed, batch, settings.seed)
    processes.refuse_few_rows(plan.rows, packed.length)
    causal, own = settings.objective == "causal", options["init"] is None and not settings.steps
    most = min(MANY_EPOCHS, TOKENS[data.device] / data.tokens)
    epochs = options["epochs"] or (
        max(FEW_EPOCHS, most / 2 if causal else most) if own else FEW_EPOCHS
    )
    least = LEAST_STEPS if own and options["epochs"] is None else 1
    steps = settings.steps or min(MOST_STEPS, max(least, round(epochs * plan.steps_per_epoch)))
    changes: dict[str, Any] = {}
    if own and options["dropout"] is None:
        shown = steps / plan.steps_per_epoch
        share = 0.2 if shown >= 20 else 0.1 if shown >= 6 else 0.0
        changes["dropout"] = round(share + 0.1, 1) if share and causal and data.pairs else share
    if own and settings.parallel and not causal and options["mask_source"] is None:
        changes["mask_source"] = MASKED_SOURCE
    warmup = min(settings.warmup, max(1, steps // 10))
    return dataclasses.replace(settings, batch_tokens=batch, steps=steps, warmup=warmup, **changes)


def planned(
    settings: TrainSettings, data: Data, epochs: float, options: Mapping[str, Any], done: int = 0
) -> str:
    """A run before it begins: its length, and the settings that were chosen for it, as options."""
    after = f", of which {done:,} are done" if done else ""
    length = (
        f"{settings.steps:,} steps of {settings.batch_tokens:,} tokens{after}: {epochs:.3g} epochs"
        f" of {data.tokens:,} tokens"
    )
    fixed = (
        FIXED_BY_A_MODEL
        if options["init"] is not None
        else ("vocab",)
        if options["tokenizer"] is not None
        else ()
    )
    values, left_out = (
        settings.to_dict(),
        [name for name in CHOSEN if name not in fixed and options.get(name) is None],
    )
    words = [f"--{name.replace('_', '-')} {values[name]}" for name in left_out if values.get(name)]
    return f"{length}\nchosen for this data and device: {' '.join(words)}" if words else length
