"""Checkpoints from a folder or the hub: the one way in for weights and tokenizers.

A BERT's folder goes straight into our own network and `tokenizers` (`own_bert`, `tokenizer_loading`). Everything else, and
whatever in such a folder is not understood there to the last setting, is read by transformers (`hugging_face`). A checkpoint
that cannot serve as a masked language model is refused in one line. Nothing in a checkpoint is run as code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unmask.errors import ModelError
from unmask.models.own_bert import read_own_bert
from unmask.models.processes import LOADING
from unmask.models.source import Source
from unmask.models.text.loading import load_tokenizer
from unmask.models.weights import refuse_non_finite

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
UNLIMITED = 10**9


DEVICES = "use auto, cpu, cuda or cuda:N"


def resolve_device(device: str | torch.device) -> torch.device:
    """The device named; "auto" is CUDA where there is one, else the CPU. Others that torch knows are refused."""
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


def load_checkpoint(
    name_or_path: str | Path, device: torch.device, dtype: torch.dtype, rename: Mapping[str, str] | None = None
) -> tuple[nn.Module, Any]:
    """The network in evaluation mode on `device`, and its tokenizer. A folder is read without touching the network.

    `rename` gives tensors of a folder the names that the network has for them: {"lm_head": "cls.predictions"}.
    """
    source = Source(str(name_or_path))
    with LOADING:
        network: nn.Module | None = read_own_bert(source, dtype, rename)
        if network is None:
            from unmask.models.hugging_face import load_network

            network = load_network(source, dtype, rename)
        tokenizer = load_tokenizer(source)
    refuse_non_finite(network, source.name)
    return network.to(device).eval(), tokenizer


def longest_text(network: Any, tokenizer: Any) -> int | None:
    """The most tokens a row may have, start and end included; None where nothing limits it.

    RoBERTa and its kin number positions from padding_idx + 1, so their table of 514 positions takes 512 tokens.
    """
    table = getattr(getattr(network.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding):
        return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    limit = getattr(network.config, "max_position_embeddings", None) or getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and 0 < limit < UNLIMITED else None
