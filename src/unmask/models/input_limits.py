"""How long a text a network takes, and which ids."""

from __future__ import annotations

from typing import Any

from torch import Tensor

UNLIMITED = 10**9
"""Tokens beyond any limit; transformers' tokenizers that have none state 10**30."""


def longest_text(network: Any, tokenizer: Any) -> int | None:
    """The most tokens that a text may have, start and end included; None: no limit."""
    embeddings = getattr(network.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    if isinstance(getattr(table, "weight", None), Tensor):
        return _most_positions(embeddings, table)
    config = network.config
    if hasattr(config, "get_text_config"):  # a model of texts and images has one for each
        config = config.get_text_config()
    stated = getattr(config, "max_position_embeddings", None)
    limit = stated or getattr(tokenizer, "model_max_length", None)
    if limit and 0 < limit < UNLIMITED:
        return int(limit)
    return None


def _most_positions(embeddings: Any, table: Any) -> int:
    """The number of tokens for which a table of positions has a row.

    RoBERTa and its kin number positions from padding_idx + 1: a table of 514 rows takes 512
    tokens. YOSO and Nystromformer number them from 2, in a table that is 2 longer than their
    list of numbers, `position_ids`.
    """
    padding = getattr(table, "padding_idx", None)
    numbers = getattr(embeddings, "position_ids", None)
    rows = len(table.weight)
    if padding is not None:
        rows -= padding + 1
    if numbers is None:
        return rows
    return min(rows, numbers.shape[-1])


def input_size(network: Any) -> int:
    """The number of token ids that the network takes."""
    weight = getattr(network.get_input_embeddings(), "weight", None)
    if weight is None:  # Perceiver gives its latents
        return int(network.config.vocab_size)
    return int(weight.shape[0])
