"""The types of transformers that need care: those that it does not compute right, and those that
were trained with more than a text.

A type is `config.model_type`. A network without a configuration of transformers has no type and
needs no care.
"""

from __future__ import annotations

from typing import Any

import torch

from unmask.common.errors import ModelError

MISSING_INPUTS = {
    "layoutlm": "the box of each token on its page (bbox)",
    "modernvbert": "images (pixel_values)",
    "neomme": "images (pixel_values)",
    "roc_bert": (
        "the shape and the pronunciation of each character (input_shape_ids,"
        " input_pronunciation_ids)"
    ),
    "tapas": "a table, with the row and column of each token (token_type_ids)",
    "ultravbert": "images (pixel_values)",
}
"""Inputs of the training that a text does not have, by type."""


def refuse_type(config: Any, name: str) -> None:
    """Raise ModelError for a type, or a setting of it, that transformers does not compute right.

    name   what the message calls the model
    """
    kind = getattr(config, "model_type", None)
    if kind == "mra":
        problem = (
            "transformers has its attention only as a CUDA kernel for texts of 32, 64, ... tokens,"
            " and gives zeros without it"
        )
    elif kind == "nystromformer" and config.num_landmarks != config.segment_means_seq_len:
        problem = (
            f"with num_landmarks {config.num_landmarks} and segment_means_seq_len"
            f" {config.segment_means_seq_len} in its config.json its attention mixes the texts of a"
            " batch"
        )
    elif kind == "yoso" and not config.use_expectation:
        problem = (
            "with use_expectation false in its config.json its attention is drawn at random, by a"
            " CUDA kernel"
        )
    elif kind in ("flaubert", "xlm") and config.causal:
        problem = "with causal true in its config.json it does not look ahead"
    elif kind == "flaubert" and config.pre_norm:
        problem = "with pre_norm true in its config.json transformers' pass fails"
    else:
        return
    raise ModelError(f"{name} is a {kind} model, and {problem}: use another model")


def caution_about(config: Any, name: str, dtype: torch.dtype) -> str | None:
    """A sentence about a model whose answers may be far off; None for all others.

    name    what the sentence calls the model
    dtype   the number format of its weights
    """
    kind = str(getattr(config, "model_type", None))
    if kind == "reformer" and dtype != torch.float64:
        return (
            f"{name} (reformer) hashes its queries, and rounding moves them to other buckets: in"
            f" {str(dtype)[6:]} its log-probabilities are up to 0.8 nats from those in float64, in"
            " transformers too; load it with dtype float64"
        )
    missing = _missing_inputs(config, kind)
    if missing is None:
        return None
    return (
        f"{name} ({kind}) was trained with {missing}, and is given none: its answers may be far"
        " off, do not rely on them"
    )


def _missing_inputs(config: Any, kind: str) -> str | None:
    """The inputs of the training that a text does not have; None: the text is all."""
    if kind in ("flaubert", "xlm"):
        if config.use_lang_emb and config.n_langs > 1:
            return "the language of each text (langs)"
        return None
    if kind == "roc_bert" and not (config.enable_shape or config.enable_pronunciation):
        return None  # it was trained without both
    return MISSING_INPUTS.get(kind)
