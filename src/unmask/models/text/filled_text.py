"""A text whose blanks are filled, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask.common.cloze import Cloze, ids_of_filling
from unmask.models.text.text_tokenizer import TextTokenizer


@dataclass(frozen=True)
class FilledText:
    """A filled text.

    tokens   one for each blank
    text     the whole text
    spans    where the tokens are in it: start and end, in characters
    """

    tokens: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


def filled_text(tokenizer: TextTokenizer, cloze: Cloze, values: Sequence[int]) -> FilledText:
    """The text with `values`, a token id for each blank, in its blanks."""
    ids = ids_of_filling(cloze, values)
    text = tokenizer.text(ids)
    spans: list[tuple[int, int]] = []
    for position in cloze.block:
        start = len(tokenizer.text(ids[:position]))
        stop = len(tokenizer.text(ids[: position + 1]))
        part = text[start:stop]
        start += len(part) - len(part.lstrip())
        spans.append((start, stop))
    tokens = tuple(tokenizer.token(value) for value in values)
    return FilledText(tokens=tokens, text=text, spans=tuple(spans))
