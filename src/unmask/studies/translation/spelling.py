"""The words of a model of pairs: the tokenizer of its folder, used without special tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from unmask.common.errors import InputError
from unmask.models.checkpoint_files import Source
from unmask.models.text.folder_tokenizer import FolderTokenizer
from unmask.models.text.text_tokenizer import read_by_tokenizer
from unmask.models.text.tokenizer_config import tokenizer_config
from unmask.models.text.tokenizer_files import as_it_is
from unmask.models.text.word_pieces import UNKNOWN, load_word_pieces
from unmask.studies.translation.recipe import PAIR_FOLDER

INSIDE_WORDS = re.compile(r"(?<=\w) ([-'’/]) (?=\w)")
"""A mark between two parts of a word; decoders of word pieces put spaces around it."""
QUOTED = re.compile(r'" ([^"]*?) "')
"""A quotation, with the spaces that such decoders put inside its marks."""


class Spelling:
    """From sentences to token ids and back, without special tokens.

    unknown   the id of the unknown token
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{str(folder)!r} is not a folder", argument="model", use=PAIR_FOLDER)
        self.folder = folder
        self.core: Tokenizer = load_word_pieces(folder)
        self.unknown: int | None = self.core.token_to_id(UNKNOWN)

    @cached_property
    def tokenizer(self) -> FolderTokenizer:
        """The model's own tokenizer, with special tokens."""
        return as_it_is(self.core, tokenizer_config(Source(str(self.folder))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        with read_by_tokenizer("one of the texts"):
            encodings = self.core.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell, without spaces inside words and quotation marks."""
        spaced = self.core.decode(list(ids))
        joined = INSIDE_WORDS.sub(r"\1", spaced)
        return QUOTED.sub(r'"\1"', joined)
