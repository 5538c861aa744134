"""A fresh BERT for masked language modelling, in the shape the settings ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from unmask.errors import InputError
from unmask.training.settings import TrainSettings


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> Any:
    """A BertForMaskedLM: that of `settings.init`, in float32, or one with weights drawn from the settings' seed.

    A new one has no dropout, one type of segment and tied embeddings.
    """
    from transformers import BertConfig, BertForMaskedLM

    if settings.init:
        return BertForMaskedLM.from_pretrained(settings.init, dtype=torch.float32, local_files_only=True).train()
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        max_position_embeddings=settings.max_length,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=pad,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return BertForMaskedLM(config)


def shape_of(folder: Path) -> dict[str, int]:
    """The settings that a model folder fixes for a run that starts from it."""
    try:
        config = json.loads((folder / "config.json").read_text())
        if config["model_type"] != "bert" or not (folder / "tokenizer.json").is_file():
            raise KeyError("model_type")
        names = {"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads", "vocab": "vocab_size"}
        return {name: int(config[key]) for name, key in names.items()}
    except (OSError, ValueError, KeyError):
        raise InputError(f"--init {folder} is not a BERT model: give a folder that `unmask train` wrote") from None


def weights_to_save(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The state that a checkpoint folder holds: tied weights once, in `dtype`."""
    state = model.state_dict()
    return {n: t.detach().to("cpu", dtype).contiguous() for n, t in state.items() if not n.startswith("cls.predictions.decoder.")}
