"""tokenizer_config.json: the special tokens of a tokenizer, and its longest text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmask.common import checks
from unmask.common.errors import ModelError
from unmask.models.checkpoint_files import Source, read_json

SPECIAL_KINDS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""Kinds of special tokens. The file names the token of each as bos_token, eos_token, ..."""
PLAIN_CLASS = "PreTrainedTokenizerFast"
"""The class of transformers that uses tokenizer.json as it is."""


def tokenizer_config(source: Source) -> dict[str, Any]:
    """The content of a folder's tokenizer_config.json; empty if it is missing."""
    path = source.folder / "tokenizer_config.json"
    if not path.is_file():
        return {}
    config = read_json(path, "repair it, or remove it")
    longest = config.get("model_max_length")
    is_number = isinstance(longest, int | float) and not isinstance(longest, bool)
    if longest is not None and not is_number:
        problem = f"model_max_length {checks.shown(longest)} is not a number"
        raise ModelError(
            f"tokenizer_config.json of {source.name!r}: {problem}: correct it, or leave it out"
        )
    return config


def given_special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that a tokenizer_config.json names, by kind: {"mask": "[MASK]"}."""
    special = {}
    for kind in SPECIAL_KINDS:
        token = config.get(f"{kind}_token")
        if isinstance(token, dict) and token:  # as transformers stores it with its settings
            special[kind] = token["content"]
        elif token:
            special[kind] = token
    return special
