"""A tokenizer with another mask token: diffusion language models often have one that their tokenizer does not name."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from unmask import checks
from unmask.errors import InputError

MOST_FILLED = 100_000
"""Ids between the tokenizer's last one and the mask's."""


def with_mask(tokenizer: Any, mask_id: int | None = None, mask_token: str | None = None) -> Any:
    """The tokenizer, or a copy with this mask token; an id that it has no token for gets one."""
    if mask_id is None and mask_token is None:
        return tokenizer
    if mask_id is not None:
        mask_id = checks.whole("mask_id", mask_id, 0, checks.MOST_TOKENS)
    vocabulary = tokenizer.get_vocab()
    if mask_token is not None and mask_token not in vocabulary:
        raise InputError(
            f"mask_token {mask_token!r} is not a token of the tokenizer: name one that is, or give mask_id in Python"
        )
    copied = deepcopy(tokenizer)
    if mask_token is None:
        mask_token = next((token for token, i in vocabulary.items() if i == mask_id), None) or _token_for(copied, mask_id)
    if hasattr(copied, "add_special_tokens"):
        copied.add_special_tokens({"mask_token": mask_token})
    else:
        copied.backend_tokenizer.add_special_tokens([mask_token])
        old = copied.mask_token
        copied.mask_token, copied.mask_token_id = mask_token, copied.backend_tokenizer.token_to_id(mask_token)
        copied.all_special_tokens = list(dict.fromkeys([*(t for t in copied.all_special_tokens if t != old), mask_token]))
        copied.all_special_ids = copied.convert_tokens_to_ids(copied.all_special_tokens)
    return copied


def _token_for(tokenizer: Any, mask_id: int | None) -> str:
    """A new token at `mask_id`, with special ones that no text has before it."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    size = len(tokenizer) if core is None else core.get_vocab_size(with_added_tokens=True)
    if core is None or mask_id is None or not 0 <= mask_id - size <= MOST_FILLED:
        raise InputError(
            f"mask_id {mask_id} has no token, and the tokenizer has {size}: give the id of a token, or from {size} on"
        )
    core.add_special_tokens([f"[UNUSED{i}]" for i in range(size, mask_id)] + ["[MASK]"])
    if core.token_to_id("[MASK]") != mask_id:
        raise InputError(f"mask_id {mask_id} has no token, and [MASK] is another: give its id, {core.token_to_id('[MASK]')}")
    return "[MASK]"
