"""A fresh BERT for masked language modelling, in the shape the settings ask for."""

from __future__ import annotations

from typing import Any

import torch

from unmask.training.settings import TrainSettings


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> Any:
    """A BertForMaskedLM with weights drawn from the settings' seed; no dropout, one type of segment, tied embeddings."""
    from transformers import BertConfig, BertForMaskedLM

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


def weights_to_save(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The state that a checkpoint folder holds: tied weights once, in `dtype`."""
    state = model.state_dict()
    return {n: t.detach().to("cpu", dtype).contiguous() for n, t in state.items() if not n.startswith("cls.predictions.decoder.")}
