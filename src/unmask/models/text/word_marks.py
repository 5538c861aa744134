"""Which tokens begin a word, and which go on with it, as a tokenizer marks them.

    WordPiece            "##lin" goes on with a word; every other token begins one
    byte-level BPE       "Ġvio" begins a word after a space, "lin" goes on with it (or begins
                         one without a space before it)
    SentencePiece        the same with "▁"

A word is made of letters, digits and combining marks. Punctuation has no mark in the last two,
and is a token like others in the first, so it is recognised by its characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.text.text_tokenizer import REPLACEMENT, TextTokenizer
from unmask.models.text.vocabulary import CONTINUES


class Pieces(NamedTuple):
    """Which tokens of the vocabulary are pieces of words, with a mark at their front and
    without.
    """

    marked: Bool[Tensor, " V"]
    unmarked: Bool[Tensor, " V"]


class WordMarks:
    """The marking of a tokenizer's words; raises if there is no known marking.

    space   the mark of a token that carries the space before it; "" for word pieces, which
            mark the tokens that go on with a word
    """

    def __init__(self, tokenizer: TextTokenizer, vocab_size: int) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        if not tokenizer.spaces_in_tokens:
            self.space: str = ""
        elif tokenizer.byte_level:
            self.space = "Ġ"
        else:
            self.space = "▁"
        has_continuing = any(
            token.startswith(CONTINUES) and token != CONTINUES for token in tokenizer.regular_tokens
        )
        if tokenizer.by_character or not (self.space or has_continuing):
            raise InputError(
                "this model's tokenizer does not mark where a word begins (no '##', 'Ġ' or '▁' in"
                " its tokens): use [MASK] for one token, or [GAP:1-3] for one to three"
            )

    def beginning(self, at_start: bool, after_space: bool) -> Bool[Tensor, " V"]:
        """The tokens that begin a word at the start of a text, after a space, or right after
        punctuation.
        """
        if not self.space:
            return self._pieces.unmarked
        is_marked = self._marks_start() if at_start else after_space
        return self._pieces.marked if is_marked else self._pieces.unmarked

    @property
    def continuing(self) -> Bool[Tensor, " V"]:
        """The tokens that go on with a word."""
        return self._pieces.unmarked if self.space else self._pieces.marked

    def spelled(self, ids: Sequence[int]) -> str:
        """The word that pieces spell, without its marks; "" if they do not spell one."""
        if self.space:
            text = self._decoded(ids)
        else:
            text = "".join(self._token(i).removeprefix(CONTINUES) for i in ids)
        return text if is_word(text) else ""

    def is_canonical(self, ids: Sequence[int], at_start: bool, after_space: bool) -> bool:
        """Whether the pieces spell a word, and do so as the tokenizer itself would."""
        word = self.spelled(ids)
        if not word:
            return False
        try:
            return self.tokenizer.encode_word(word, at_start, after_space) == list(ids)
        except InputError:
            return False

    @cached_property
    def _pieces(self) -> Pieces:
        mark = self.space or CONTINUES
        marked = torch.zeros(self.vocab_size, dtype=torch.bool)
        unmarked = torch.zeros(self.vocab_size, dtype=torch.bool)
        for token, token_id in self.tokenizer.regular_tokens.items():
            is_space = token == self.space  # a space by itself can begin a word
            if is_space or self._is_piece(token.removeprefix(mark), token_id):
                of_kind = marked if token.startswith(mark) else unmarked
                of_kind[token_id] = True
        return Pieces(marked, unmarked)

    def _is_piece(self, unmarked: str, token_id: int) -> bool:
        """Whether a token, `unmarked` without its mark, can be part of a word. Some tokens of a
        byte-level vocabulary are parts of a letter.
        """
        if self.space != "Ġ" or unmarked.isascii():
            return is_word(unmarked)
        text = self._decoded([token_id])
        return REPLACEMENT in text or is_word(text)

    def _marks_start(self) -> bool:
        """Whether a word at the start of a text has the mark, as if a space were before it."""
        first = self.tokenizer.tokenizer("a", add_special_tokens=False)["input_ids"][0]
        return self._token(first).startswith(self.space)

    def _decoded(self, ids: Sequence[int]) -> str:
        hugging_face = self.tokenizer.tokenizer
        return str(hugging_face.decode(list(ids), clean_up_tokenization_spaces=False)).strip()

    def _token(self, token_id: int) -> str:
        return str(self.tokenizer.tokenizer.convert_ids_to_tokens(int(token_id)))


def is_word(text: str) -> bool:
    """Whether a text is made of letters, digits and combining marks only, and of one at least."""
    return bool(text) and all(
        character.isalnum() or unicodedata.category(character).startswith("M") for character in text
    )
