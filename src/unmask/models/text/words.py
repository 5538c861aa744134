"""Whole words in tokens: which tokens begin a word and which go on with it, by the tokenizer's own marking.

    WordPiece            "##lin" goes on with a word; every other token begins one
    byte-level BPE       "Ġvio" begins a word after a space, "lin" goes on with it (or begins one without a space before it)
    SentencePiece        the same with "▁"

A word is made of letters, digits and combining marks. Punctuation has no mark in the last two, and is
a token like others in the first, so it is recognised by its characters.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.errors import InputError
from unmask.models.text.text_tokenizer import TextTokenizer

CONTINUED = "##"


class WordMarks:
    """The marking of a tokenizer's words; raises if there is no known marking."""

    def __init__(self, words: TextTokenizer, vocab_size: int) -> None:
        self.words = words
        self.vocab_size = vocab_size
        self.space = "" if not words.spaces_in_tokens else "Ġ" if words.byte_level else "▁"
        continued = any(token.startswith(CONTINUED) and len(token) > 2 for token in words.regular_tokens)
        if words.by_character or not (self.space or continued):
            raise InputError(
                "this model's tokenizer does not mark where a word begins (no '##', 'Ġ' or '▁' in its tokens): "
                "use [MASK] for one token, or [GAP:1-3] for one to three"
            )

    def beginning(self, at_start: bool, after_space: bool) -> Bool[Tensor, " V"]:
        """The tokens that begin a word at the start of a text, after a space, or right after punctuation."""
        return self._pieces[self._begins_marked(at_start, after_space)]

    @property
    def continuing(self) -> Bool[Tensor, " V"]:
        """The tokens that go on with a word."""
        return self._pieces["" if self.space else CONTINUED]

    def spelled(self, ids: Sequence[int]) -> str:
        """The word that pieces spell, without its marks; "" if they do not spell one."""
        if self.space:
            text = str(self.words.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)).strip()
        else:
            text = "".join(self._token(i).removeprefix(CONTINUED) for i in ids)
        return text if is_word(text) else ""

    def is_canonical(self, ids: Sequence[int], at_start: bool, after_space: bool) -> bool:
        """Whether the pieces spell a word, and do so as the tokenizer itself would."""
        word = self.spelled(ids)
        try:
            return bool(word) and self.words.encode_word(word, at_start, after_space) == list(ids)
        except InputError:
            return False

    def splits(self, ids: Sequence[int], most: int) -> list[tuple[int, ...]]:
        """Every way to spell the word that `ids` spell in at most `most` pieces, `ids` itself included."""
        spelled = "".join(t if self.space else t.removeprefix(CONTINUED) for t in map(self._token, ids))
        known = self.words.regular_tokens
        inner = "" if self.space else CONTINUED

        def ways(place: int, pieces: int) -> list[tuple[int, ...]]:
            if place == len(spelled):
                return [()]
            if pieces == 0:
                return []
            mark = inner if place else ""
            ends = [end for end in range(place + 1, len(spelled) + 1) if mark + spelled[place:end] in known]
            return [(known[mark + spelled[place:end]], *rest) for end in ends for rest in ways(end, pieces - 1)]

        return ways(0, most)

    def _begins_marked(self, at_start: bool, after_space: bool) -> str:
        if at_start:
            first = self.words.tokenizer("a", add_special_tokens=False)["input_ids"][0]
            return self.space if self.space and self._token(first).startswith(self.space) else ""
        return self.space if after_space else ""

    @cached_property
    def _pieces(self) -> dict[str, Tensor]:
        """For each mark that a piece of a word can have at its front ("" for none), which tokens have it."""
        mark = self.space or CONTINUED
        found = {m: torch.zeros(self.vocab_size, dtype=torch.bool) for m in ("", mark)}
        for token, number in self.words.regular_tokens.items():
            inside = token.removeprefix(mark)
            if token == self.space or self._is_piece(inside, number):
                found[mark if token.startswith(mark) else ""][number] = True
        return found

    def _is_piece(self, inside: str, number: int) -> bool:
        """Whether a token without its mark can be part of a word; some of a byte-level vocabulary are parts of a letter."""
        if self.space != "Ġ" or inside.isascii():
            return is_word(inside)
        text = str(self.words.tokenizer.decode([number], clean_up_tokenization_spaces=False)).strip()
        return "\ufffd" in text or is_word(text)

    def _token(self, number: int) -> str:
        return str(self.words.tokenizer.convert_ids_to_tokens(int(number)))


def is_word(text: str) -> bool:
    """Whether a text is made of letters, digits and combining marks only, and of one at least."""
    return bool(text) and all(c.isalnum() or unicodedata.category(c).startswith("M") for c in text)


def alphabet_tokens(alphabet: str | os.PathLike[str] | Sequence[str]) -> tuple[str, ...]:
    """The tokens that an alphabet names, each once, in the order given."""
    if isinstance(alphabet, str | os.PathLike):
        words = [word for word in re.split(r"[,\s]+", _content(alphabet)) if word]
        tokens = list(words[0]) if len(words) == 1 else words
    else:
        tokens = [str(token).strip() for token in alphabet] if isinstance(alphabet, Iterable) else []
    found = tuple(dict.fromkeys(token for token in tokens if token))
    if not found:
        raise InputError(f"alphabet {alphabet!r} names no token: give letters, words with commas between them, or a file")
    return found


def alphabet_ids(words: TextTokenizer, tokens: Sequence[str], name: str = "alphabet") -> list[int]:
    """The ids of the tokens; both, if a token can be spelled with and without a space before it.

    Raises for one that is not a single token of the model, under the argument's `name`.
    """
    found: dict[int, None] = {}
    for token in tokens:
        try:
            spellings = [words.encode_word(token, at_start, after_space) for at_start, after_space in _PLACES]
        except InputError:
            raise InputError(f"{name}: {token!r} is not a word of the model: leave it out (no file was found either)") from None
        single = [ids[0] for ids in spellings if len(ids) == 1]
        if not single:
            raise InputError(f"{name}: {token!r} is {len(spellings[0])} tokens of the model, and one is needed: leave it out")
        found.update(dict.fromkeys(single))
    return list(found)


_PLACES = ((True, False), (False, True), (False, False))


def _content(given: str | os.PathLike[str]) -> str:
    path = Path(os.path.expanduser(given))
    try:
        if isinstance(given, str) and not os.path.isfile(path):
            return given
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"alphabet file {str(path)!r} is not UTF-8 text: convert it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"alphabet file {str(path)!r} cannot be read ({error}): check the path") from None
