"""Which tokens may stand in a blank, as a user states it: letters, words, or a file of them.

    ACDEFGHIKLMNPQRSTVWY     every character is a token
    red,green,blue           words with commas or spaces between them
    words.txt                a file that exists, in either form; line breaks separate too

Upper and lower case differ.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from unmask.errors import InputError


@runtime_checkable
class Words(Protocol):
    """The part of a tokenizer that this needs; `TextTokenizer` has it."""

    def encode_word(self, word: str, at_start: bool, after_space: bool) -> list[int]:
        """Ids of a word that fills a blank."""
        ...


def alphabet_tokens(alphabet: str | os.PathLike[str] | Sequence[str]) -> tuple[str, ...]:
    """The tokens that an alphabet names, each once, in the order given."""
    if isinstance(alphabet, str | os.PathLike):
        tokens = _split(_content(alphabet))
    else:
        tokens = [str(token).strip() for token in _listed(alphabet)]
    found = tuple(dict.fromkeys(token for token in tokens if token))
    if not found:
        raise InputError(f"alphabet {alphabet!r} names no token: give letters, words with commas between them, or a file")
    return found


def alphabet_ids(words: Words, tokens: Sequence[str], name: str = "alphabet") -> list[int]:
    """The ids of the tokens; where a token can be spelled with and without a space before it, both.

    One that is no single token of the model is refused, under the argument's `name`.
    """
    found: dict[int, None] = {}
    for token in tokens:
        try:
            spellings = [words.encode_word(token, at_start, after_space) for at_start, after_space in _PLACES]
        except InputError:
            raise InputError(f"{name}: {token!r} is no word of the model: leave it out (no file was found either)") from None
        single = [ids[0] for ids in spellings if len(ids) == 1]
        if not single:
            raise InputError(f"{name}: {token!r} is {len(spellings[0])} tokens of the model, and one is needed: leave it out")
        found.update(dict.fromkeys(single))
    return list(found)


def _listed(given: object) -> list[object]:
    return list(given) if isinstance(given, Iterable) else []


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


def _split(text: str) -> list[str]:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    return list(words[0]) if len(words) == 1 else words
