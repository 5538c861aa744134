"""A text as the model's tokens: which of them are scored, where they stand, and which word each belongs to.

Two kinds of words. Masking (pll_word) goes by the tokenizer's own words, as Kauf & Ivanova's measure does: "don't" is three of
BERT's. Tables with one row per word go by spaces, as reading-time corpora do: "don't." is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unmask.errors import InputError
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer
from unmask.scoring.batch import Batch
from unmask.scoring.reading import Item

EMPTY = "the text is empty"
"""The reason of a blank line, which is no failure."""


@dataclass(frozen=True)
class Encoded:
    """One text, position by position, start and end tokens included.

    ids       token ids
    shown     readable tokens
    regular   whether a token belongs to the text
    spans     its place in the text, in characters; (0, 0) for start and end tokens
    word_end  the first position after the tokenizer's word that it is in
    sites     positions that are scored
    unknown   how many of them the model does not know
    """

    ids: tuple[int, ...]
    shown: tuple[str, ...]
    regular: tuple[bool, ...]
    spans: tuple[tuple[int, int], ...]
    word_end: tuple[int, ...]
    sites: tuple[int, ...]
    unknown: int


def encode(words: TextTokenizer, item: Item) -> Encoded:
    """The item's text as tokens; raises `InputError` with the reason where it cannot be scored."""
    if not item.text.strip():
        raise InputError(EMPTY)
    if BLANK in item.text or words.mask_token in item.text:
        raise InputError("the text has a blank: fill it, or use fill")
    ids, spans, numbers = words.tokens_of(item.text)
    regular = tuple(number is not None for number in numbers)
    special = set(words.special_ids)
    unknown_id = words.unknown_id
    foreign = [words.token(i) for i, own in zip(ids, regular, strict=True) if own and i in special and i != unknown_id]
    if foreign:
        raise InputError(f"the text holds the special token {foreign[0]}: take it out")
    sites = [t for t, own in enumerate(regular) if own]
    if item.target is not None:
        sites = _target_sites(item, sites, spans)
    if not sites:
        raise InputError("the text has no token of the model: give one with a word in it")
    words.refuse_unknown(item.text[slice(*item.target)] if item.target else item.text, [ids[t] for t in sites])
    words.warn_of_unknown(words.prepared(item.text), ids)
    return Encoded(
        tuple(ids),
        tuple(words.token(i) for i in ids),
        regular,
        tuple(spans),
        _word_ends(numbers),
        tuple(sites),
        sum(ids[t] == unknown_id for t in sites),
    )


def batch_of(texts: Sequence[Encoded]) -> Batch:
    """Texts with equally many tokens and sites, side by side."""
    sites = torch.tensor([text.sites for text in texts])
    return Batch(
        torch.tensor([text.ids for text in texts]),
        sites,
        torch.tensor([text.regular for text in texts]),
        torch.tensor([text.word_end for text in texts]).gather(1, sites),
    )


def spaced_words(text: str) -> list[tuple[int, int]]:
    """Where the words between spaces stand."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def word_of_site(encoded: Encoded, text: str) -> list[int]:
    """For each site the number, from 0, of the word between spaces in which its first letter stands."""
    words = spaced_words(text)
    if not any(end for _, end in encoded.spans):
        return list(range(len(encoded.sites)))
    numbers, word = [], 0
    for t in encoded.sites:
        start, end = encoded.spans[t]
        start += len(text[start:end]) - len(text[start:end].lstrip())
        while word + 1 < len(words) and start >= words[word][1]:
            word += 1
        numbers.append(word)
    return numbers


def _word_ends(numbers: Sequence[int | None]) -> tuple[int, ...]:
    ends = list(range(1, len(numbers) + 1))
    for t in range(len(numbers) - 2, -1, -1):
        if numbers[t] is not None and numbers[t] == numbers[t + 1]:
            ends[t] = ends[t + 1]
    return tuple(ends)


def _target_sites(item: Item, regular: list[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens of the target; one that reaches beyond it into the words around has no score of its own."""
    assert item.target is not None
    first, last = item.target
    sites = []
    for t in regular:
        start, end = spans[t]
        start += len(item.text[start:end]) - len(item.text[start:end].lstrip())
        if start < last and end > first:
            if start < first or end > last:
                raise InputError(f"the token {item.text[start:end]!r} is only partly in the target: give whole words")
            sites.append(t)
    if not sites:
        raise InputError(f"the target {item.text[first:last]!r} has no token of its own: give a word")
    return sites
