"""From text to token ids and back; the rules about blanks, spaces and characters live here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.errors import InputError


class TextTokenizer:
    """A Hugging Face tokenizer with the few rules that a cloze needs."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.mask_id: int = tokenizer.mask_token_id
        self.special_ids: tuple[int, ...] = tuple(sorted(set(tokenizer.all_special_ids)))

    def encode(self, text: str) -> list[int]:
        """Ids of the whole text with the model's special tokens; `[MASK]` stands for the model's own mask token."""
        if not text.strip():
            raise InputError("the text is empty: give a sentence with [MASK] where a token should be modelled")
        return list(self.tokenizer(text.replace("[MASK]", self.tokenizer.mask_token))["input_ids"])

    def token(self, token_id: int) -> str:
        """Readable text of one token."""
        return str(self.tokenizer.convert_ids_to_tokens(int(token_id)))

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that `ids` spell, without the special tokens around it."""
        return str(self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True))
