"""A tokenizer with another mask token.

Diffusion language models often have a mask token that their tokenizer does not name.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from unmask.common import checks
from unmask.common.errors import InputError
from unmask.models.text.folder_tokenizer import FolderTokenizer, core_of

MOST_FILLED = 100_000  # Ids between the tokenizer's last one and the mask's


def with_mask(tokenizer: Any, mask_id: int | None) -> Any:
    """The tokenizer, or a copy whose mask token has this id; an id that it has no token for
    gets one.
    """
    if mask_id is None:
        return tokenizer
    copied = deepcopy(tokenizer)
    mask_id = checks.whole("mask_id", mask_id, 0, checks.MOST_TOKENS)
    tokens = (token for token, i in tokenizer.get_vocab().items() if i == mask_id)
    mask_token = next(tokens, "")
    if not mask_token:
        mask_token = _add_mask(copied, mask_id)
    if hasattr(copied, "add_special_tokens"):  # a tokenizer of transformers
        copied.add_special_tokens({"mask_token": mask_token})
        return copied
    copied.backend_tokenizer.add_special_tokens([mask_token])
    named = {**copied.named, "mask": mask_token}
    return FolderTokenizer(copied.backend_tokenizer, named, copied.config)


def _add_mask(tokenizer: Any, mask_id: int) -> str:
    """Add the token [MASK] with this id, and before it special tokens that no text has, which
    fill the ids up to it. Returns [MASK].
    """
    core = core_of(tokenizer)
    size = len(tokenizer) if core is None else core.get_vocab_size(with_added_tokens=True)
    if core is None or not 0 <= mask_id - size <= MOST_FILLED:
        raise InputError(
            f"{mask_id} has no token, and the tokenizer has {size}",
            argument="mask_id",
            use=f"give the id of a token, or from {size} on",
        )
    fillers = [f"[UNUSED{i}]" for i in range(size, mask_id)]
    core.add_special_tokens([*fillers, "[MASK]"])
    if core.token_to_id("[MASK]") != mask_id:
        raise InputError(
            f"{mask_id} has no token, and [MASK] is another",
            argument="mask_id",
            use=f"give its id, {core.token_to_id('[MASK]')}",
        )
    return "[MASK]"
