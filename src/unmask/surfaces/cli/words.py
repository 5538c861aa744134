"""Words of the command line as values.

cyclopts converts words by the type of their option, which `parsing` states. Every type has `str`
as its last member, and so has every type of a list's items: a word that fits no other stays a
text, and the check of the call refuses it in the words that a caller in Python gets. (cyclopts
itself checks what a converter returns against the type, once something has imported pydantic.)

Four things are done here, because cyclopts does them in another way:

1. 1.5 is no whole number: cyclopts rounds it to 2.
2. One word with commas is a list: cyclopts wants one word, or one option, for each item.
3. 2=red,green is an item of a mapping: cyclopts writes --allow.2 red, with texts as keys.
4. - is standard input, and -0.2:0.2 is a range: cyclopts takes both for options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from cyclopts import Token, convert

from unmask.common.border.marks import Loaded, TakesMethod, kinds, mark
from unmask.common.border.options import Option
from unmask.common.errors import InputError
from unmask.common.files import user_path

NUMBERS = (int, float)
DASHED = re.compile(r"-(?:\Z|\.?\d)")
"""The beginning of a word that is a value although it has a dash: - alone, or a number after it."""
STAND_IN = "\0"
"""Stands for the dash of such a word while cyclopts reads it. No word can hold this character."""


def with_stand_ins(words: Sequence[str]) -> list[str]:
    """The words as cyclopts gets them: the dash of - and of -0.2:0.2 is replaced."""
    replaced = []
    for word in words:
        if DASHED.match(word):
            word = f"{STAND_IN}{word[1:]}"
        replaced.append(word)
    return replaced


def as_typed(word: str) -> str:
    """The word as the user typed it."""
    if word.startswith(STAND_IN):
        return f"-{word[1:]}"
    return word


# ---- the type of an option ----


class Parsing(NamedTuple):
    """How cyclopts reads the words of an option.

    kind        the type of the value, of what cyclopts knows of types
    converter   makes the value from the type and the words; None for a flag, which has no word
    repeats     the option may be given several times, or takes all words that are left
    words       how many words it takes; None: as many as the type has
    """

    kind: Any
    converter: Callable[[Any, Sequence[Token]], Any] | None
    repeats: bool = False
    words: int | None = None


def parsing(option: Option) -> Parsing:
    """How cyclopts reads the words of an option."""
    types = [kind for kind in kinds(option.annotation) if kind is not type(None)]
    mappings = [kind for kind in types if is_kind_of(kind, Mapping)]
    if mappings:
        _, item = get_args(mappings[0])
        of_item = _mapping_to_text if item is str else _mapping
        return Parsing(list[str] | Any, partial(of_item, option), repeats=True, words=1)
    if option.written.files:
        return Parsing(list[Path], partial(_files, option), repeats=True)
    if option.written.repeat:
        return Parsing(list[str], _value, repeats=True)
    if option.written.words > 1:
        texts = (str,) * option.written.words
        return Parsing(tuple.__class_getitem__(texts), _value)
    if mark(option.annotation, TakesMethod) or mark(option.annotation, Loaded):
        return Parsing(str, _value)  # a name: the check of the call makes an object of it
    if types == [bool]:
        return Parsing(bool, None)
    numbers = [kind for kind in types if kind in NUMBERS]
    choices = [kind for kind in types if get_origin(kind) is Literal]
    if not any(_is_text(kind) for kind in types):
        for kind in types:
            item = item_type(kind)
            if item is not None:
                several = list.__class_getitem__(_union([item, str]))
                of_word = _union([*numbers, several, str])
                return Parsing(of_word, partial(_list, numbers, item), words=1)
    # Numbers come first: cyclopts tries types from left to right, and every word is a text.
    # Where a text is allowed, a list is given as a text, too: the function itself divides it.
    return Parsing(_union([*numbers, *choices, str]), _value)


def _union(members: Sequence[Any]) -> Any:
    """The union of types that are known at run time only."""
    return Union[tuple(members)]  # noqa: UP007


def _is_text(kind: Any) -> bool:
    """Whether every text is a value of a type."""
    return kind is str or kind is Any or is_kind_of(kind, os.PathLike)


def item_type(kind: Any) -> Any:
    """The type of the items of a list that one word with commas can be; None for other types."""
    if kind is str or not is_kind_of(kind, Sequence):
        return None
    item = kinds(get_args(kind)[0])[0]  # of texts or lists of texts, the text
    if item in (str, *NUMBERS):
        return item
    return None


def is_kind_of(kind: Any, family: type) -> bool:
    """Whether a type, without its parameters, is a subclass of another."""
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, family)


# ---- converters, as cyclopts calls them ----


def _value(kind: Any, tokens: Sequence[Token]) -> Any:
    """The value of an option, by its type."""
    return _converted(kind, [as_typed(token.value) for token in tokens])


def _list(numbers: Sequence[Any], item: Any, kind: Any, tokens: Sequence[Token]) -> Any:
    """A list from one word with commas; a word without one is a number if the option takes one.

    numbers   the types of such a number, may be none
    item      the type of the list's items; an item that does not fit it stays a text
    """
    (token,) = tokens
    word = as_typed(token.value)
    if numbers and "," not in word:
        return _converted(_union([*numbers, str]), [word])
    of_item = _union([item, str])
    return [_converted(of_item, [part.strip()]) for part in word.split(",")]


def _files(option: Option, kind: Any, tokens: Sequence[Token]) -> list[Path]:
    """The files that words name, which a list of texts cannot be taken for."""
    return [user_path(as_typed(token.value), option.name) for token in tokens]


def _mapping(option: Option, kind: Any, tokens: Sequence[Token]) -> dict[int, list[str]]:
    """NUMBER=A,B words as a mapping; words with the same number add up."""
    values: dict[int, list[str]] = {}
    for number, text in _numbered(option, tokens):
        parts = [part.strip() for part in text.split(",")]
        values.setdefault(number, []).extend(part for part in parts if part)
    return values


def _mapping_to_text(option: Option, kind: Any, tokens: Sequence[Token]) -> dict[int, str]:
    """NUMBER=TEXT words as a mapping; raises for a number that comes twice."""
    values: dict[int, str] = {}
    for number, text in _numbered(option, tokens):
        if number in values:
            raise InputError(
                f"has two texts for {number}", argument=option.name, use="give one of the two"
            )
        values[number] = text.strip()
    return values


def _numbered(option: Option, tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """The number and the text of each word NUMBER=TEXT."""
    for token in tokens:
        word = as_typed(token.value)
        key, _, text = word.partition("=")
        number = _converted(int | str, [key])
        if "=" not in word or not isinstance(number, int):
            raise InputError(
                f"{word!r} is not understood",
                argument=option.name,
                use=f"give {option.written.metavar or 'NUMBER=A,B'}",
            )
        yield number, text


def _converted(kind: Any, words: Sequence[str]) -> Any:
    """The words by a type, as cyclopts converts them, except for whole numbers."""
    return convert(kind, words, converter=_exactly)


def _exactly(kind: type, word: str) -> Any:
    """The word as an int, float or str; raises ValueError if it is none."""
    return kind(word)
