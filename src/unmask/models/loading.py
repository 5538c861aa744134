"""Checkpoints from a folder or the hub: the one way in for weights and tokenizers.

A BERT's folder goes straight into our own network (config.json and model.safetensors, nothing of transformers). Everything
else, and a folder with any unrecognised setting, is read by transformers (`hugging_face`). A checkpoint that is not a masked
language model is refused in one line. Nothing in a checkpoint is run as code.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import ModelError, UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.hugging_face import read_network
from unmask.models.source import LOADING, Source
from unmask.models.text.loading import load_tokenizer
from unmask.models.weights import read_file, refuse_non_finite, refuse_whole_numbers, renamed

logger = logging.getLogger(__name__)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
NATIVE = {torch.bfloat16: ("avx512_bf16", "amx_bf16"), torch.float16: ("avx512_fp16", "amx_fp16")}
"""What x86 processors call their products of half precision; torch computes them slowly without."""
UNLIMITED = 10**9
WEIGHTS = "model.safetensors"
UNUSED_BY_LOGITS = ("bert.pooler.", "cls.seq_relationship.", "bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
DEVICES = "use auto, cpu, cuda or cuda:N"
PAIR_FILE = "translation.json"
"""In the folder of a model that was trained to translate (`unmask.translation.pairs`)."""


def resolve_device(device: str | torch.device) -> torch.device:
    """The device named; "auto" is CUDA if there is a GPU, else the CPU. Others that torch knows are refused."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device if isinstance(device, torch.device) else str(device))
    except (RuntimeError, ValueError):
        raise ModelError(f"device {device!r} is not known: {DEVICES}") from None
    if found.type not in ("cpu", "cuda") or (found.type == "cpu" and found.index):
        raise ModelError(f"device {str(device)!r} is not one that unmask runs on: {DEVICES}")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device {str(device)!r} was asked for, but this torch sees no CUDA device: use cpu")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"device {str(device)!r} was asked for, and there are {torch.cuda.device_count()}, from cuda:0: use one")
    return found if found.type == "cuda" else torch.device("cpu")


def resolve_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """The number format named; "auto" is float32 on every device."""
    if isinstance(dtype, torch.dtype):
        dtype = str(dtype).removeprefix("torch.")
    if dtype == "auto":
        return torch.float32
    if dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is not known: use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def warn_if_slow(device: torch.device, dtype: torch.dtype) -> None:
    """Log a warning if an x86 processor has no products of this half precision: they are slower than float32 there."""
    able = torch.cpu.get_capabilities() if device.type == "cpu" and hasattr(torch.cpu, "get_capabilities") else {}
    if dtype in NATIVE and able.get("architecture") == "x86_64" and not any(able.get(name) for name in NATIVE[dtype]):
        logger.warning(
            "dtype %s is slower than float32 on this processor, which has no such products: use float32", str(dtype)[6:]
        )


def is_pair_model(folder: Path) -> bool:
    """Whether a folder holds a model that was trained to translate."""
    return (folder / PAIR_FILE).is_file()


def warn_of_pair_model(folder: Path) -> None:
    """Warn of a model that was trained to translate."""
    if is_pair_model(folder):
        warnings.warn(
            f"model {str(folder)!r} was trained to translate and never saw a text without its source: "
            "use it with unmask translate",
            UnmaskWarning,
            stacklevel=4,
        )


def load_checkpoint(
    name_or_path: str | Path,
    device: torch.device,
    dtype: torch.dtype,
    rename: Mapping[str, str] | None = None,
    mask_token: str | None = None,
) -> tuple[nn.Module, Any]:
    """The network in evaluation mode on `device`, and its tokenizer; see `load_network` and `load_tokenizer`."""
    source = Source(str(name_or_path))
    with LOADING:
        network = load_network(source, device, dtype, rename)
        return network, load_tokenizer(source, mask_token)


def load_network(source: Source, device: torch.device, dtype: torch.dtype, rename: Mapping[str, str] | None = None) -> nn.Module:
    """The network in evaluation mode on `device`. A folder is read without touching the internet.

    `rename` gives tensors of a folder the names that the network has for them: {"lm_head": "cls.predictions"}.
    """
    with LOADING:
        network: nn.Module = read_own_bert(source, dtype, rename) or read_network(source, dtype, rename)
    refuse_non_finite(network, source.name)
    return network.to(device).eval()


def read_own_bert(
    source: Source, dtype: torch.dtype, rename: Mapping[str, str] | None = None, decoder: bool = False
) -> BertMaskedLM | None:
    """The network, or None if the folder does not hold exactly its tensors: transformers reads it then.

    Tensors that logits do not use (pooler, next sentence) may lie beside. `rename`: see `weights.renamed`.
    `decoder`: read a causal model's weights, whose caller does not let positions look ahead.
    """
    config = {key: value for key, value in source.config.items() if not (decoder and key == "is_decoder")}
    shape = BertShape.of(config) if source.local else None
    if shape is None or not (source.folder / WEIGHTS).is_file():
        return None
    network = BertMaskedLM(shape)
    tensors = _tensors_for(network, source.folder / WEIGHTS, rename or {})
    if tensors is None:
        return None
    tied = network.tied()
    converted = {name: tensor.to(dtype) for name, tensor in tensors.items() if name not in tied}
    network.load_state_dict(converted | {name: converted[of] for name, of in tied.items()}, assign=True)
    network.tie()
    return network.eval()


def _tensors_for(network: BertMaskedLM, path: Path, rename: Mapping[str, str]) -> dict[str, Tensor] | None:
    """The file's tensors, if they are the network's, in number and shape."""
    stored = renamed(read_file(path), rename)
    tensors = {_new_name(name): tensor for name, tensor in stored.items() if not name.startswith(UNUSED_BY_LOGITS)}
    for name, of in network.tied().items():
        if of not in tensors or not torch.equal(tensors.setdefault(name, tensors[of]), tensors[of]):
            return None
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if expected != {name: tensor.shape for name, tensor in tensors.items()}:
        return None
    refuse_whole_numbers({_new_name(name): tensor.dtype for name, tensor in stored.items()}, expected, str(path.parent))
    return tensors


def _new_name(name: str) -> str:
    for old, new in OLD_NAMES.items():
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name


def longest_text(network: Any, tokenizer: Any) -> int | None:
    """The most tokens a row may have, start and end included; None: no limit.

    RoBERTa and its kin number positions from padding_idx + 1, so their table of 514 positions takes 512 tokens. YOSO and
    Nystromformer number them from 2, in a table that is 2 longer than the list of numbers that they read.
    """
    embeddings = getattr(network.base_model, "embeddings", None)
    table: Any = getattr(embeddings, "position_embeddings", None)
    if isinstance(getattr(table, "weight", None), Tensor):
        padding, numbers = getattr(table, "padding_idx", None), getattr(embeddings, "position_ids", None)
        rows = len(table.weight) - (0 if padding is None else padding + 1)
        return rows if numbers is None else min(rows, numbers.shape[-1])
    config = network.config.get_text_config() if hasattr(network.config, "get_text_config") else network.config
    limit = getattr(config, "max_position_embeddings", None) or getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and 0 < limit < UNLIMITED else None


def input_size(network: Any) -> int:
    """The number of token ids that the network takes; Perceiver gives its latents for its embeddings."""
    weight = getattr(network.get_input_embeddings(), "weight", None)
    return int(network.config.vocab_size if weight is None else weight.shape[0])
