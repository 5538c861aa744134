"""What a masked language model is not made of, and the ids and positions that it does not have."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask import checks
from unmask.errors import InputError, ModelError


def refuse_no_tokenizer(tokenizer: object) -> None:
    """Raise for what is not a tokenizer."""
    if not all(hasattr(tokenizer, name) for name in ("mask_token_id", "all_special_ids", "get_vocab", "convert_ids_to_tokens")):
        raise InputError(f"tokenizer {checks.shown(tokenizer)} is not one of transformers: give what from_pretrained returns")


def refuse_no_mask(tokenizer: object) -> None:
    """Raise for a tokenizer without a mask token."""
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise ModelError(
            f"tokenizer {type(tokenizer).__name__} has no mask token: give that of a masked language model, or mask_id"
        )


def refuse_outside(ids: Tensor, positions: Tensor, input_size: int) -> None:
    """Raise for token ids and positions that are not there; those on a GPU are not looked at, since that would wait for it."""
    for name, given in (("ids", ids), ("positions", positions)):
        if given.dim() != 2 or given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
            raise InputError(f"{name} {checks.shown(given)} are not rows of whole numbers: give a tensor such as [[3, 4]]")
    for what, given, size in (("token id", ids, input_size), ("position", positions, ids.shape[1])):
        if given.device.type == "cpu" and given.numel():
            for value in given.aminmax():
                checks.whole(what, value, 0, size - 1)
    if len(ids) != len(positions):
        raise InputError(f"{len(ids)} texts and {len(positions)} rows of positions were given: give one row for each text")
