"""The settings of a run that decide its numbers, and its network: a BERT drawn from the seed, or that of a folder to start from.

Equal settings and data give equal weights on one kind of device. `choose_shape` fills in a preset, or the shape of a model to
start from; `refuse_what_does_not_fit` compares it with the memory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import nn

from unmask import checks
from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.hugging_face import load_causal
from unmask.models.loading import load_checkpoint
from unmask.models.source import Source
from unmask.models.text.word_pieces import special_id
from unmask.options.training import MASKED_ONLY, MOST_TOKENS, PAIRS_ONLY, Training
from unmask.runs.fingerprint import fingerprint
from unmask.training.masking import parse_replacement, parse_scheme

INITIAL_DEVIATION = 0.02


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


def refuse_what_does_not_fit(settings: TrainSettings, device: torch.device, processes: int = 1, sharded: bool = False) -> None:
    """Raise InputError, before any allocation, if weights, gradients, moments and attention masks alone exceed the memory."""
    layer = 12 * settings.width**2 + 13 * settings.width
    count = (settings.vocab + settings.max_length + settings.width) * settings.width + settings.layers * layer
    needed = (8 + 8 / (processes if sharded else 1)) * count + 5 * settings.batch_tokens * settings.max_length / processes
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


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> BertMaskedLM:
    """A network with one type of segment and tied embeddings.

    Weights are normal of deviation 0.02, biases 0. They are drawn in the order in which Hugging Face's BertForMaskedLM draws
    its own (for the encoder and then for the head: torch's defaults, and the normals over them), so that a seed gives the
    model that it gives there.
    """
    shape = BertShape(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        hidden_act="gelu",
        max_position_embeddings=settings.max_length,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
    )
    network = BertMaskedLM(shape).to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(settings.seed)
        for part in (network.bert, network.cls):
            drawn = [m for m in part.modules() if isinstance(m, nn.Linear | nn.Embedding | nn.LayerNorm)]
            for module in drawn:
                module.reset_parameters()
            for module in drawn:
                if not isinstance(module, nn.LayerNorm):
                    module.weight.normal_(0.0, INITIAL_DEVIATION)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
        network.get_input_embeddings().weight[pad] = 0.0
    network.tie()
    return network


@dataclass(frozen=True)
class Start:
    """A model to start from: its network in float32, which the run trains in place, and the fingerprint of its first weights."""

    folder: Path
    network: BertMaskedLM
    weights: str

    @classmethod
    def read(cls, folder: Path, causal: bool = False, rename: Mapping[str, str] | None = None) -> Start:
        """The masked (or causal) language model of a folder, raises InputError unless it is a whole BERT with a tokenizer.json.

        `rename`: see `weights.renamed`.
        """
        if not (folder / "tokenizer.json").is_file():
            raise InputError(f"init {str(folder)!r} has no tokenizer.json: give a folder that `unmask train` wrote")
        if causal:
            if rename:
                raise InputError("rename is for masked models, and --objective causal starts from a causal one: leave it out")
            if not Source(str(folder)).config.get("is_decoder"):
                raise InputError(f"init {str(folder)!r} is not a causal model: give one, or leave out --objective causal")
            loaded, _ = load_causal(str(folder))
        else:
            loaded, _ = load_checkpoint(folder, torch.device("cpu"), torch.float32, rename)
        network = _as_our_own(loaded, folder)
        return cls(folder, network, fingerprint(network.state_dict()))

    @property
    def shape(self) -> dict[str, int]:
        """The settings that this model fixes."""
        config = self.network.config
        return {
            "layers": config.num_hidden_layers,
            "width": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocab": config.vocab_size,
        }

    def refuse_other_sizes(self, max_length: int, vocab_size: int) -> None:
        """Raise InputError if texts or tokens would have no embeddings."""
        config = self.network.config
        if max_length > config.max_position_embeddings:
            raise InputError(
                f"max_length {max_length} is more than the {config.max_position_embeddings} positions of {str(self.folder)!r}: "
                "give a smaller --max-length"
            )
        if vocab_size > config.vocab_size:
            raise InputError(
                f"the tokenizer has {vocab_size:,} tokens and {str(self.folder)!r} {config.vocab_size:,}: leave out --tokenizer"
            )


def _as_our_own(loaded: Any, folder: Path) -> BertMaskedLM:
    """The same weights in our own network, if another library's code had to read them."""
    if not isinstance(loaded, BertMaskedLM):
        if getattr(loaded.config, "model_type", None) != "bert":
            raise InputError(f"init {str(folder)!r} is not a BERT: give a folder that `unmask train` wrote")
        network = BertMaskedLM(BertShape(**{f.name: getattr(loaded.config, f.name) for f in fields(BertShape)}))
        stored = loaded.state_dict()
        network.load_state_dict({name: stored[name].float() for name in network.state_dict()}, assign=True)
        network.tie()
        loaded = network
    if loaded.config.hidden_act != "gelu" or not loaded.config.tie_word_embeddings:
        raise InputError(f"init {str(folder)!r} is a BERT of another kind (not gelu, or not tied): train a new one")
    return loaded


def config_json(network: BertMaskedLM, tokenizer: Tokenizer, dtype: torch.dtype, causal: bool) -> dict[str, Any]:
    """The content of config.json; a causal network is a decoder."""
    start, end = special_id(tokenizer, "[CLS]"), special_id(tokenizer, "[SEP]")
    kind = {"is_decoder": True, "bos_token_id": start, "eos_token_id": end} if causal else {}
    return {
        **{field.name: getattr(network.config, field.name) for field in fields(BertShape)},
        **kind,
        "architectures": ["BertLMHeadModel" if causal else "BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.0,
        "dtype": str(dtype).removeprefix("torch."),
        "hidden_dropout_prob": 0.0,
        "initializer_range": INITIAL_DEVIATION,
        "pad_token_id": special_id(tokenizer, "[PAD]"),
    }


def weights_to_save(network: BertMaskedLM, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The state that a checkpoint folder holds: tied weights once, in `dtype`."""
    tied = network.tied()
    return {n: t.detach().to("cpu", dtype).contiguous() for n, t in network.state_dict().items() if n not in tied}
