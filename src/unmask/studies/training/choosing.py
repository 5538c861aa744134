"""Settings as the user chose, or as the data and the device suggest.

The rule is in docs/training.md. `choose` runs before the texts are tokenised: B bytes of them count
as B / 4 tokens. `settle` runs when the rows are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.common.errors import InputError, Notice, argument_name
from unmask.studies.training.batches import BatchPlan
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.processes import ALONE, Processes
from unmask.studies.training.recipe import Causal, Masked, Optimisation, Shape
from unmask.studies.training.settings import PAIRS_MASKING, TrainSettings

if TYPE_CHECKING:
    from unmask.studies.training.start import Start

BYTES_PER_TOKEN = 4
TOKENS_SHOWN = {"cuda": 200_000_000, "cpu": 10_000_000}
"""Tokens that a run shows at most, all epochs together, unless FEW_EPOCHS are more."""
FEW_EPOCHS = 3.0
"""Of a large corpus, and of a run that starts from a model."""
MANY_EPOCHS = 48.0
"""Of a small corpus."""
LEAST_STEPS = 400
"""Of a run whose length follows from the data."""
MOST_STEPS = 10**9  # as many as the option steps takes
STEPS_PER_EPOCH = 50
"""Steps of an epoch at least: small corpora have smaller batches."""
LEAST_BATCH = 512  # tokens
LEAST_VOCAB = 256
USES_OF_A_TOKEN = 8
"""Estimated tokens of the corpus for each token of the vocabulary, at least. Held-out nats per
character were lowest at 4.5 and 7.5 for 300 and 1,000 captions, and much higher at 15 to 60
(bench/vocabulary.py; the table is in docs/training.md)."""
LEAST_TRAINED = 64
"""Tokens of a tokenizer that is trained, at least."""
LONGEST_TEXT = 128
"""Tokens of the longest text, where the user names no number; a model to start from that has fewer
positions takes as many as it has."""
LENGTH_MULTIPLE = 8
"""The longest text is a multiple of this many tokens."""
MASKED_SOURCE = 0.1
"""Rate at which source tokens are masked."""
SIZES: dict[str, dict[str, Any]] = {
    "mini": dict(layers=2, width=64, heads=2, vocab=1024, batch_tokens=1024, lr=8e-3),
    "tiny": dict(layers=2, width=128, heads=2, vocab=4096, batch_tokens=2048, lr=4e-3),
    "small": dict(layers=6, width=256, heads=4, vocab=8192, batch_tokens=65536, lr=4e-3),
    "medium": dict(layers=6, width=384, heads=6, vocab=8192, batch_tokens=16384, lr=2.5e-3),
    "base": dict(layers=12, width=768, heads=12, vocab=28672, batch_tokens=65536, lr=1e-3),
}
"""Shapes, each with the batch and the learning rate that suit it."""
FIXED_BY_A_MODEL = ("layers", "width", "heads", "vocab")
CHOSEN = (*FIXED_BY_A_MODEL, "batch_tokens", "lr", "dropout", "mask_source", "steps")
"""Settings that are chosen, in the order in which a run names them."""


@dataclass(frozen=True)
class Data:
    """A corpus and the device that trains on it.

    tokens   in an epoch
    pairs    whether they are those of pairs
    device   "cpu" or "cuda"
    """

    tokens: float
    pairs: bool
    device: str

    @property
    def size(self) -> str:
        """The size of model that suits them."""
        if self.tokens < 20_000:
            return "mini"
        if self.device != "cuda" or self.tokens < 100_000:
            return "tiny"
        return "medium" if self.pairs else "small"


def _power_of_two(most: float, least: int) -> int:
    """The largest power of two up to `most`, but at least `least`."""
    exponent = max(0, int(most).bit_length() - 1)
    return max(least, 1 << exponent)


def suited_vocab(data: Data) -> int:
    """The size of the vocabulary that suits a corpus, before its texts are tokenised."""
    by_tokens = _power_of_two(data.tokens / USES_OF_A_TOKEN, LEAST_VOCAB)
    return min(SIZES[data.size]["vocab"], by_tokens)


def choose(
    shape: Shape,
    objective: Masked | Causal,
    optimisation: Optimisation,
    seed: int,
    data: Data,
    start: Start | None,
) -> TrainSettings:
    """The settings before the rows are known.

    Each is as the user chose, else as in the model to start from, else as in the size.
    """
    size = shape.size or data.size
    chosen = dict(SIZES[size])
    if shape.size is None:
        chosen["vocab"] = suited_vocab(data)
    if start is None:
        for name in FIXED_BY_A_MODEL:
            value = getattr(shape, name)
            if value is not None:
                chosen[name] = value
        _refuse_shape(shape, chosen, size)
    else:  # a call with a model to start from has no shape of its own: see `Shape`
        chosen |= start.shape
    chosen["max_length"] = _longest_text(shape.max_length, start)
    for name, value in [*vars(objective).items(), *vars(optimisation).items()]:
        if value is not None and name != "epochs":  # `settle` makes steps of epochs
            chosen[name] = value
    if isinstance(objective, Masked) and objective.masking is None and data.pairs:
        chosen["masking"] = PAIRS_MASKING
    return TrainSettings(
        **chosen,
        objective=objective.name,  # type: ignore[arg-type]
        seed=seed,
        parallel=data.pairs,
    )


def _refuse_shape(shape: Shape, chosen: Mapping[str, int], size: str) -> None:
    """Raise InputError for a shape that the user gave and no network can have.

    chosen   the shape with what `size` has for the rest
    """
    vocab = chosen["vocab"]
    if vocab < LEAST_TRAINED:  # no size has so few
        raise InputError(
            f"{vocab} is out of range",
            argument="vocab",
            use=f"give a whole number, at least {LEAST_TRAINED}",
        )
    width = chosen["width"]
    heads = chosen["heads"]
    if width % heads == 0:
        return
    if shape.width is None:
        raise InputError(
            f"{heads} does not divide the width {width} of size {size}",
            argument="heads",
            use=f"give another number, or {argument_name('width')} as well",
        )
    of_size = f" of size {size}" if shape.heads is None else ""
    raise InputError(
        f"{width} is not a multiple of {heads} heads{of_size}",
        argument="width",
        use=f"change it or {argument_name('heads')}",
    )


def _longest_text(given: int | None, start: Start | None) -> int:
    """Tokens of the longest text: as given, else LONGEST_TEXT, or what the model has room for."""
    if given is not None:
        if given % LENGTH_MULTIPLE:
            near = LENGTH_MULTIPLE * (given // LENGTH_MULTIPLE + 1)
            raise InputError(
                f"{given} is not a multiple of {LENGTH_MULTIPLE}",
                argument="max_length",
                use=f"give one, for example {near}",
            )
        if start is not None:
            start.refuse_longer_texts(given)
        return given
    if start is None:
        return LONGEST_TEXT
    positions = start.network.config.max_position_embeddings
    if positions < LENGTH_MULTIPLE:
        raise InputError(
            f"{str(start.folder)!r} has {positions} positions, and training takes"
            f" {LENGTH_MULTIPLE} or more",
            argument="init",
            use="give another model",
        )
    return min(LONGEST_TEXT, positions - positions % LENGTH_MULTIPLE)


def settle(
    settings: TrainSettings,
    packed: PackedRows,
    data: Data,
    options: Mapping[str, Any],
    processes: Processes = ALONE,
) -> TrainSettings:
    """The settings with batch, steps, warm-up, dropout and masking of sources for these rows.

    `options` are the user's, flat; None is an option that was left out, and is chosen here.
    """
    causal = settings.objective == "causal"
    batch_tokens = settings.batch_tokens
    if options["size"] is None and options["batch_tokens"] is None and len(packed.ids):
        batch_tokens = _suited_batch(batch_tokens, packed, data, processes)
    plan = BatchPlan(packed, batch_tokens, settings.seed)
    processes.refuse_few_rows(plan.rows, packed.length)

    # A run of the user's own steps, or from a model, is not planned by the data.
    by_data = options["init"] is None and not settings.steps
    epochs = options["epochs"]
    if epochs is None:
        epochs = _suited_epochs(data, causal) if by_data else FEW_EPOCHS
    least = LEAST_STEPS if by_data and options["epochs"] is None else 1
    steps = settings.steps
    if not steps:
        steps = min(MOST_STEPS, max(least, round(epochs * plan.steps_per_epoch)))

    changes: dict[str, Any] = {}
    if by_data and options["dropout"] is None:
        changes["dropout"] = _suited_dropout(steps / plan.steps_per_epoch, causal and data.pairs)
    if by_data and settings.parallel and not causal and options["mask_source"] is None:
        changes["mask_source"] = MASKED_SOURCE
    return dataclasses.replace(
        settings,
        batch_tokens=batch_tokens,
        steps=steps,
        warmup=min(settings.warmup, max(1, steps // 10)),  # at most a tenth of the steps
        **changes,
    )


def _suited_batch(most: int, packed: PackedRows, data: Data, processes: Processes) -> int:
    """Tokens of a step: at most `most`, few enough for STEPS_PER_EPOCH and for the corpus.

    Every process has a row at least.
    """
    by_steps = _power_of_two(data.tokens / STEPS_PER_EPOCH, LEAST_BATCH)
    whole_corpus = packed.ids.size
    return max(min(most, by_steps, whole_corpus), processes.size * packed.length)


def _suited_epochs(data: Data, causal: bool) -> float:
    """How often a run shows its corpus."""
    epochs = min(MANY_EPOCHS, TOKENS_SHOWN[data.device] / data.tokens)
    if causal:
        epochs /= 2
    return max(FEW_EPOCHS, epochs)


def _suited_dropout(epochs: float, of_causal_pairs: bool) -> float:
    """The share that training drops of each layer's output; 0.1 more of causal models of pairs."""
    if epochs >= 20:
        share = 0.2
    elif epochs >= 6:
        share = 0.1
    else:
        return 0.0
    return round(share + 0.1, 1) if of_causal_pairs else share


def announcement(
    settings: TrainSettings, data: Data, epochs: float, options: Mapping[str, Any], done: int = 0
) -> Notice:
    """A run before it begins: its length, and the settings that were chosen for it, as arguments.

    done   steps of an earlier run that this one resumes
    """
    after = f", of which {done:,} are done" if done else ""
    length = (
        f"{settings.steps:,} steps of {settings.batch_tokens:,} tokens{after}: {epochs:.3g} epochs"
        f" of {data.tokens:,} tokens"
    )
    not_chosen: tuple[str, ...] = ()
    if options["init"] is not None:
        not_chosen = FIXED_BY_A_MODEL
    elif options["tokenizer"] is not None:
        not_chosen = ("vocab",)
    values = settings.to_dict()
    as_arguments = []
    for name in CHOSEN:
        left_out = name not in not_chosen and options.get(name) is None
        if left_out and values.get(name):  # 0 is no dropout, or no masking of sources
            as_arguments.append(argument_name(name, values[name]))
    if options["max_length"] is None and settings.max_length != LONGEST_TEXT:  # the model's own
        as_arguments.append(argument_name("max_length", settings.max_length))
    if not as_arguments:
        return Notice(length)
    return Notice(f"{length}\nchosen for this data and device: {' '.join(as_arguments)}")
