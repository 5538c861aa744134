"""Alphabets: the tokens to which a user limits the blanks, and their ids."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.common.errors import InputError, argument_name
from unmask.models.text.text_tokenizer import TextTokenizer

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM

Alphabet = str | os.PathLike[str] | Sequence[str] | None
"""Tokens; or a text, or the file that holds it: letters without a separator, or words."""
CONTEXTS = (
    {"at_start": True, "after_space": False},
    {"at_start": False, "after_space": True},
    {"at_start": False, "after_space": False},
)
"""Where a word can stand, and may be spelled differently: at the start of a text, after a
space, right after another token.
"""


def alphabet_tokens(alphabet: str | os.PathLike[str] | Sequence[str]) -> tuple[str, ...]:
    """The tokens that an alphabet names, each once, in the order given."""
    tokens: list[str] = []
    if isinstance(alphabet, str | os.PathLike):
        words = [word for word in re.split(r"[,\s]+", _content(alphabet)) if word]
        tokens = list(words[0]) if len(words) == 1 else words  # a single word lists letters
    elif isinstance(alphabet, Iterable):  # at run time it may be anything
        tokens = [str(token).strip() for token in alphabet]
    named = tuple(dict.fromkeys(token for token in tokens if token))
    if not named:
        raise InputError(
            f"{alphabet!r} names no token",
            argument="alphabet",
            use="give letters, words with commas between them, or a file",
        )
    return named


def _content(alphabet: str | os.PathLike[str]) -> str:
    """The text of the file that an alphabet names; the alphabet itself if it is a text."""
    path = Path(os.path.expanduser(os.fsdecode(alphabet)))
    if isinstance(alphabet, str) and not os.path.isfile(path):
        return alphabet
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"file {str(path)!r} is not UTF-8 text", argument="alphabet", use="convert it"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"file {str(path)!r} cannot be read ({error})",
            argument="alphabet",
            use="check the path",
        ) from None


def alphabet_ids(
    tokenizer: TextTokenizer, tokens: Sequence[str], name: str = "alphabet"
) -> list[int]:
    """The ids of the tokens; both, if a token can be spelled with and without a space before it.

    Raises for one that is not a single token of the model, under the argument's `name`.
    """
    ids: dict[int, None] = {}  # a set in the order of the tokens
    for token in tokens:
        try:
            spellings = [tokenizer.encode_word(token, **context) for context in CONTEXTS]
        except InputError:
            raise InputError(
                f"{argument_name(name)}: {token!r} is not a word of the model: leave it out (no"
                " file was found either)"
            ) from None
        single = [spelling[0] for spelling in spellings if len(spelling) == 1]
        if not single:
            raise InputError(
                f"{argument_name(name)}: {token!r} is {len(spellings[0])} tokens of the model, and"
                " one is needed: leave it out"
            )
        ids.update(dict.fromkeys(single))
    return list(ids)


def letter_ids(model: MaskedLM, alphabet: Alphabet) -> list[int] | None:
    """Ids of the tokens that an alphabet names; None without one."""
    if alphabet is None:
        return None
    return alphabet_ids(model.words, alphabet_tokens(alphabet))
