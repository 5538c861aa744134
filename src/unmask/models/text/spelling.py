"""From text to the tokens of a model of pairs, and back.

WordPiece forgets the spaces around marks. In what a decoder of pieces writes, the spaces inside words are taken out again
(t - shirt, man ' s), and a pair of quotation marks closes up around what it quotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from unmask.errors import InputError
from unmask.models.source import Source
from unmask.models.text.folder_tokenizer import FolderTokenizer, tokenizer_config
from unmask.models.text.loading import as_it_is

UNKNOWN = "[UNK]"
INSIDE_WORDS = re.compile(r"(?<=\w) ([-'’/]) (?=\w)")
QUOTED = re.compile(r'" ([^"]*?) "')


class Spelling:
    """The tokenizer of a model of pairs, used without special tokens."""

    def __init__(self, folder: Path, core: Tokenizer) -> None:
        self.folder, self.core = folder, core
        self.special = core.get_vocab()
        self.unknown = self.special.get(UNKNOWN)

    @classmethod
    def read(cls, folder: Path) -> Spelling:
        """The tokenizer of a model folder."""
        if not folder.is_dir():
            raise InputError(f"model {str(folder)!r} is not a folder: give one of `unmask train --parallel`")
        try:
            return cls(folder, Tokenizer.from_file(str(folder / "tokenizer.json")))
        except Exception as error:
            raise InputError(f"no tokenizer.json that can be read in {str(folder)!r} ({error}): train the model again") from None

    @cached_property
    def tokenizer(self) -> FolderTokenizer:
        """The same, with special tokens: the model's own."""
        return as_it_is(self.core, tokenizer_config(Source(str(self.folder))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        return [encoding.ids for encoding in self.core.encode_batch(list(texts), add_special_tokens=False)]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell."""
        return joined(self.core.decode(list(ids)))


def joined(text: str) -> str:
    """The text without spaces inside words and quotation marks."""
    return QUOTED.sub(r'"\1"', INSIDE_WORDS.sub(r"\1", text))
