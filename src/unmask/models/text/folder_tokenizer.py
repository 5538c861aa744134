"""A tokenizer of the library `tokenizers`, used and stored without transformers.

`FolderTokenizer` has the part of Hugging Face's tokenizer interface that `unmask` uses, under
the same names: a tokenizer of transformers can stand in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unmask.models.text.tokenizer_config import PLAIN_CLASS, SPECIAL_KINDS

UNLIMITED = 10**30
"""`model_max_length` if no longest text is known. Transformers writes int(1e30)."""
GLUED = {
    mark: mark.strip()
    for mark in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
}
"""Written without a space in English; decoders of word pieces put one there."""


class FolderTokenizer:
    """A `tokenizers.Tokenizer` with names for its special tokens.

    backend_tokenizer   the tokenizer itself
    named               the special tokens by kind: {"mask": "[MASK]"}
    config              the content of tokenizer_config.json

    Each special token is an attribute, too: `mask_token`, and its id `mask_token_id`.
    """

    def __init__(
        self, core: Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]
    ) -> None:
        core.no_truncation()  # a tokenizer.json may ask for it, and texts would be cut silently
        core.no_padding()
        self.backend_tokenizer = core
        self.named: dict[str, str] = dict(named)
        self.config: dict[str, Any] = dict(config)
        self.model_max_length: int = config.get("model_max_length") or UNLIMITED
        in_order = [named[kind] for kind in SPECIAL_KINDS if kind in named]
        self.all_special_tokens: list[str] = list(dict.fromkeys(in_order))
        self.all_special_ids: list[int] = self.convert_tokens_to_ids(self.all_special_tokens)

    def __getattr__(self, name: str) -> Any:
        """A special token, such as `mask_token`, or its id, `mask_token_id`; None if there is
        no such token.
        """
        kind, _, part = name.partition("_")
        if kind not in SPECIAL_KINDS or part not in ("token", "token_id"):
            raise AttributeError(f"a tokenizer has no {name!r}")
        token = self.named.get(kind)
        if token is None or part == "token":
            return token
        return self.backend_tokenizer.token_to_id(token)

    def __call__(
        self, text: str | Sequence[str], add_special_tokens: bool = True, verbose: bool = False
    ) -> dict[str, list[Any]]:
        """The ids of a text, or a list of ids for each of several.

        `verbose` has no effect: tokenizers of transformers take it.
        """
        single = isinstance(text, str)
        texts = [text] if single else list(text)
        encoded = self.backend_tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        if single:
            return {"input_ids": encoded[0].ids}
        return {"input_ids": [encoding.ids for encoding in encoded]}

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def get_vocab(self) -> dict[str, int]:
        """Every token and its id, added ones included."""
        return self.backend_tokenizer.get_vocab(with_added_tokens=True)

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The token of an id, or None if it is missing; a list for several."""
        token_of = self.backend_tokenizer.id_to_token
        if isinstance(ids, int):
            return token_of(ids)
        return [token_of(int(i)) for i in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, that of the unknown token if it is missing; a list for several."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        token_id = self.backend_tokenizer.token_to_id(tokens)
        return self.unk_token_id if token_id is None else token_id

    def decode(self, ids: Sequence[int], clean_up_tokenization_spaces: bool = False) -> str:
        """The text that ids spell, special tokens included.

        `clean_up_tokenization_spaces` removes the spaces that stand before punctuation, except
        for BPE, whose tokens carry their spaces.
        """
        text = self.backend_tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)
        carries_spaces = type(self.backend_tokenizer.model).__name__ == "BPE"
        if clean_up_tokenization_spaces and not carries_spaces:
            for apart, glued in GLUED.items():
                text = text.replace(apart, glued)
        return text

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, as transformers reads them."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "tokenizer_class": PLAIN_CLASS,
            "model_max_length": self.model_max_length,
        }
        for kind in SPECIAL_KINDS:
            if kind in self.named:
                config[f"{kind}_token"] = self.named[kind]
        self.backend_tokenizer.save(str(Path(folder) / "tokenizer.json"))
        content = json.dumps(config, indent=2) + "\n"
        config_path = Path(folder) / "tokenizer_config.json"
        config_path.write_text(content, encoding="utf-8", newline="\n")


def core_of(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer of the library `tokenizers` that does the work; None for one that is
    written in Python.
    """
    return getattr(tokenizer, "backend_tokenizer", None)
