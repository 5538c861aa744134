"""The settings of a run that decide its numbers: as given, or as the data and the device suggest.

Equal settings and data give equal weights on one kind of device. Texts of B bytes count as B / 4 tokens until they are tokenised.
T is the number of tokens in an epoch. If they are not given,

    size          mini below 20,000 tokens; tiny on a CPU and below 100,000 tokens; else medium for pairs, small for texts
    vocab         that of the size, at most 1/64 of the tokens (a power of two, 256 or more)
    batch_tokens  that of the size, at most 1/50 of an epoch (a power of two, 512 or more), at least a row for each process
    epochs        TOKENS of the device / T, between 3 and 48; half of that, but 3 or more, for a causal model, which is asked for
                  every token of a text where a masked one is asked for some
    steps         of these epochs, 400 or more
    dropout       0.2 from 20 epochs, 0.1 from 6, else 0; 0.1 more for a causal model of pairs
    mask_source   0.1

A named size has its own vocabulary and batch. A run with --steps is planned by its caller: no dropout and no masked source unless
they are given. A run from another model (--init) makes 3 epochs and has no dropout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from unmask import checks
from unmask.errors import InputError
from unmask.models.batching import whole_memory
from unmask.options.training import MANY, MASKED_ONLY, MOST_TOKENS, PAIRS_ONLY, Training
from unmask.training.masking import parse_replacement, parse_scheme
from unmask.training.packing import BatchPlan, PackedRows
from unmask.training.processes import ALONE, Processes

BYTES_PER_TOKEN = 4
TOKENS = {"cuda": 200_000_000, "cpu": 10_000_000}
"""How many tokens a run shows at most, epochs together, unless 3 epochs are more."""
FEW_EPOCHS, MANY_EPOCHS = 3.0, 48.0
LEAST_STEPS = 400
STEPS_PER_EPOCH = 50
LEAST_BATCH = 512
USES_OF_A_TOKEN = 64
LEAST_VOCAB = 256
MASKED_SOURCE = 0.1
RATES = {"cuda": 5e13, "cpu": 1.5e10}
"""Multiplications per second: of a GPU of today in bfloat16, of one thread of a CPU in float32."""
STEP_SECONDS = {"cuda": 0.012, "cpu": 0.01}
"""Of a step, besides."""
START_SECONDS = {"cuda": 40.0, "cpu": 0.0}
"""Of the first steps, besides: a GPU's model is compiled."""
ASKED = 0.25
"""The share of tokens that a masked model is asked for."""


class Preset(NamedTuple):
    """A shape, with the batch and the learning rate that suit it."""

    layers: int
    width: int
    heads: int
    vocab: int
    batch_tokens: int
    lr: float


SIZES = {
    "mini": Preset(2, 64, 2, 1024, 1024, 8e-3),
    "tiny": Preset(2, 128, 2, 4096, 2048, 4e-3),
    "small": Preset(6, 256, 4, 8192, 65536, 4e-3),
    "medium": Preset(6, 384, 6, 8192, 16384, 2.5e-3),
    "base": Preset(12, 768, 12, 28672, 65536, 1e-3),
}
TRAINED_VOCAB = (64, MOST_TOKENS)
"""Least and most tokens of a tokenizer that is trained; --init takes the model's own number instead."""
FIXED_BY_A_MODEL = ("layers", "width", "heads", "vocab")
LISTED = ("layers", "width", "heads", "vocab", "batch_tokens", "lr", "dropout", "mask_source", "steps")
"""Settings that are chosen, in the order in which a run names them."""


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


def refuse_what_does_not_fit(settings: TrainSettings, device: torch.device, processes: int = 1, sharded: bool = False) -> None:
    """Raise InputError, before any allocation, if weights, gradients, moments and attention masks alone exceed the memory."""
    layer = 12 * settings.width**2 + 13 * settings.width
    count = (settings.vocab + settings.max_length + settings.width) * settings.width + settings.layers * layer
    needed = (8 + 8 / (processes if sharded else 1)) * count + 5 * settings.batch_tokens * settings.max_length / processes
    there = whole_memory(device)
    if needed > there:
        raise InputError(
            f"{count:,} parameters and batches of {settings.batch_tokens:,} tokens take at least {needed // 1e9:,.0f} GB "
            f"to train, and {device} has {there / 1e9:,.0f} GB: give smaller --layers, --width, --vocab or --batch-tokens"
        )


@dataclass(frozen=True)
class Data:
    """A corpus and the device that trains on it: tokens in an epoch, whether they are pairs, and "cpu" or "cuda"."""

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

    @property
    def vocab(self) -> int:
        """The largest vocabulary whose tokens occur often enough."""
        return _power_of_two(self.tokens / USES_OF_A_TOKEN, LEAST_VOCAB)

    @property
    def batch_tokens(self) -> int:
        """The largest batch that leaves enough steps in an epoch."""
        return _power_of_two(self.tokens / STEPS_PER_EPOCH, LEAST_BATCH)

    def epochs(self, causal: bool) -> float:
        """How often to show the corpus."""
        most = min(MANY_EPOCHS, TOKENS[self.device] / self.tokens)
        return max(FEW_EPOCHS, most / 2 if causal else most)

    def dropout(self, epochs: float, causal: bool) -> float:
        """The share to drop in a run of this many epochs."""
        again = 0.2 if epochs >= 20 else 0.1 if epochs >= 6 else 0.0
        return round(again + 0.1, 1) if again and causal and self.pairs else again


def _power_of_two(most: float, least: int) -> int:
    """The largest power of two that is at most `most`, and not below `least`."""
    return max(least, 1 << max(0, int(most).bit_length() - 1))


def choose_shape(
    size: str, data: Data, given: Mapping[str, Any], init: Mapping[str, int] | None, name: str = ""
) -> dict[str, Any]:
    """Every field of a preset: as `given`, else as in the model to start from (`init`, at `name`), else by the size."""
    preset = SIZES[data.size if size == "auto" else size]
    chosen = preset._asdict()
    if size == "auto":
        chosen["vocab"] = min(preset.vocab, data.vocab)
    for option, value in given.items():
        fixed = init[option] if init and option in FIXED_BY_A_MODEL else None
        if fixed is not None and value not in (None, fixed):
            raise InputError(f"{option} {value} was given, but {name} has {fixed}: leave out --{option}, or --init")
        chosen[option] = value if value is not None else chosen[option] if fixed is None else fixed
    if init is None:
        checks.whole("vocab", chosen["vocab"], *TRAINED_VOCAB)
    return chosen


def settle(
    settings: TrainSettings, packed: Sequence[PackedRows], data: Data, given: Mapping[str, Any], processes: Processes = ALONE
) -> TrainSettings:
    """The settings with batch, steps, warm-up, dropout and masking of sources, as `given` or for these rows.

    The warm-up is at most a tenth of the steps.
    """
    batch = settings.batch_tokens
    rows = [p for p in packed if len(p.ids)]
    if given["size"] == "auto" and given["batch_tokens"] is None and rows:
        room = min(p.ids.size for p in rows)
        batch = max(min(batch, data.batch_tokens, room), processes.size * max(p.length for p in rows))
    plan = BatchPlan(packed, batch, settings.seed)
    processes.refuse_few_rows(min(plan.rows), max(p.length for p in plan.packed))
    causal, own = settings.objective == "causal", given["init"] is None and not settings.steps
    epochs = given["epochs"] or (data.epochs(causal) if own else FEW_EPOCHS)
    least = LEAST_STEPS if own and given["epochs"] is None else 1
    steps = settings.steps or min(MANY, max(least, round(epochs * plan.steps_per_epoch)))
    changes: dict[str, Any] = {}
    if own and given["dropout"] is None:
        changes["dropout"] = data.dropout(steps / plan.steps_per_epoch, causal)
    if own and given["mask_source"] is None and settings.parallel and not causal:
        changes["mask_source"] = MASKED_SOURCE
    warmup = min(settings.warmup, max(1, steps // 10))
    return dataclasses.replace(settings, batch_tokens=batch, steps=steps, warmup=warmup, **changes)


def seconds(settings: TrainSettings, steps: int, device: str) -> float:
    """How long steps take, from their multiplications.

    A token costs 12 D^2 + 2 D L in each layer of width D and rows of length L, an answer D^2 + D V; gradients cost twice that.
    """
    width = settings.width
    share = 1.0 if settings.objective == "causal" else ASKED
    layer = 12 * width**2 + 2 * width * settings.max_length
    token = settings.layers * layer + share * (width**2 + width * settings.vocab)
    rate = RATES[device] * (1 if device == "cuda" else torch.get_num_threads())
    return START_SECONDS[device] + steps * (STEP_SECONDS[device] + 3 * token * settings.batch_tokens / rate)


def in_words(seconds: float) -> str:
    """A duration, roughly: "less than a minute", "about 5 minutes", "about 3 hours"."""
    if seconds < 50:
        return "less than a minute"
    minutes = max(1, round(seconds / 60))
    count, unit = (minutes, "minute") if minutes < 100 else (round(seconds / 3600), "hour")
    return f"about {count:,} {unit}{'' if count == 1 else 's'}"


def planned(settings: TrainSettings, data: Data, epochs: float, given: Mapping[str, Any], done: int = 0) -> str:
    """A run before it begins: its length and time; the settings that were chosen for it, as options, and what to expect."""
    after = f", of which {done:,} are done" if done else ""
    length = f"{settings.steps:,} steps of {settings.batch_tokens:,} tokens{after}: {epochs:.3g} epochs of {data.tokens:,} tokens"
    lines = [f"{length}, {in_words(seconds(settings, settings.steps - done, data.device))}"]
    fixed = FIXED_BY_A_MODEL if given["init"] is not None else ("vocab",) if given["tokenizer"] is not None else ()
    left_out = {name: 0 if name == "steps" else None for name in LISTED if name not in fixed}
    stored = {name: value for name, value in settings.to_dict().items() if name in left_out and given[name] == left_out[name]}
    if chosen := [f"--{name.replace('_', '-')} {stored[name]}" for name in LISTED if stored.get(name)]:
        lines += [f"chosen for this data and device: {' '.join(chosen)}", f"expect {expectation(data)}"]
    return "\n".join(lines)


def expectation(data: Data) -> str:
    """The kind of model that this much data makes, in words."""
    of = "these pairs" if data.pairs else "these texts"
    if data.tokens < 100_000:
        return f"the words and patterns that {of} repeat, and nothing beyond them"
    if data.pairs:
        return "about 41 BLEU from 29,000 pairs of captions on a GPU and 26 on a CPU, less from more varied texts"
    if data.tokens < 10_000_000:
        return f"frequent words and phrases of {of}, not a model of the language: that takes 100 million tokens or more"
    return f"a model of the language of {of}"
