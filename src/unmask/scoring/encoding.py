"""Texts as the model's tokens, with the positions that are scored.

Two kinds of words. Masking (pll_word) goes by the tokenizer's own words, as Kauf & Ivanova's
measure does: "don't" is three of BERT's. Tables with one row per word go by spaces, as
reading-time corpora do: "don't." is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from unmask.common.errors import InputError
from unmask.models.text.blanks import has_several_lengths
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer, Tokens
from unmask.runs.lines import EMPTY
from unmask.scoring.items import Item


class Encoded(NamedTuple):
    """A text as tokens.

    ids       token ids, start and end tokens included
    sites     positions that are scored
    unknown   how many of them the model does not know
    tokens    where the text's own tokens begin and end, their words and places in the text
    """

    ids: tuple[int, ...]
    sites: tuple[int, ...]
    unknown: int
    tokens: Tokens


class Prepared(NamedTuple):
    """A text with its number, from 1, and its tokens, or the reason why it cannot be scored."""

    number: int
    item: Item
    encoded: Encoded | None
    reason: str | None


def encode(words: TextTokenizer, item: Item) -> Encoded:
    """The item's text as tokens; raises `InputError` with the reason if it cannot be scored."""
    (text,) = prepare(words, [(1, item)])
    if text.encoded is None:
        raise InputError(str(text.reason))
    return text.encoded


def prepare(words: TextTokenizer, numbered: Sequence[tuple[int, Item]]) -> list[Prepared]:
    """Every text as tokens, or with the reason why it cannot be scored."""
    reasons = [_reason_without_tokens(words, item.text) for _, item in numbered]
    tokenised = [
        item.text for (_, item), reason in zip(numbered, reasons, strict=True) if reason is None
    ]
    tokens_of_next = iter(words.tokens_of_each(tokenised))
    foreign = set(words.special_ids) - {words.unknown_id}
    texts = []
    for (number, item), reason in zip(numbered, reasons, strict=True):
        encoded = None
        if reason is None:
            try:
                encoded = _encoded(words, item, next(tokens_of_next), foreign)
            except InputError as error:
                reason = str(error)
        texts.append(Prepared(number, item, encoded, reason))
    return texts


def _reason_without_tokens(words: TextTokenizer, text: str) -> str | None:
    """Why a text is not even read as tokens; None if it is."""
    if not text.strip():
        return EMPTY
    if BLANK in text or words.mask_token in text or has_several_lengths(text):
        return "the text has a blank: fill it, or use fill"
    return None


def _encoded(
    words: TextTokenizer, item: Item, tokens: Tokens | InputError, foreign: set[int]
) -> Encoded:
    """A text of these tokens, none of which may be one of the special ids `foreign`."""
    if isinstance(tokens, InputError):
        raise tokens
    ids = tokens.ids
    sites = tuple(range(*tokens.inside))
    if not foreign.isdisjoint(ids[slice(*tokens.inside)]):
        special = next(ids[t] for t in sites if ids[t] in foreign)
        raise InputError(f"the text holds the special token {words.token(special)}: take it out")
    scored_text = item.text
    if item.target is not None:
        sites = _target_sites(item.text, item.target, sites, tokens.spans)
        scored_text = item.text[slice(*item.target)]
    if not sites:
        raise InputError("the text has no token of the model: give one with a word in it")
    unknown = 0
    if words.unknown_id in ids:
        scored_ids = [ids[t] for t in sites]
        words.refuse_unknown(scored_text, scored_ids)
        words.warn_of_unknown(words.prepared(item.text), ids)
        unknown = scored_ids.count(words.unknown_id)
    return Encoded(ids=ids, sites=sites, unknown=unknown, tokens=tokens)


def spaced_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word between spaces."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def word_of_site(encoded: Encoded, text: str) -> list[int]:
    """For each site the number, from 0, of the word between spaces that has its first letter."""
    words = spaced_words(text)
    spans = encoded.tokens.spans
    if not has_places(encoded):  # every token is a word of its own
        return list(range(len(encoded.sites)))
    numbers = []
    word = 0
    for t in encoded.sites:
        start, _ = _without_leading_space(text, spans[t])
        while word + 1 < len(words) and start >= words[word][1]:
            word += 1
        numbers.append(word)
    return numbers


def has_places(encoded: Encoded) -> bool:
    """Whether the tokenizer knows where its tokens are in the text."""
    return any(end for _, end in encoded.tokens.spans)


def _without_leading_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """The place of a token without the space before it, which many tokenizers count to it."""
    start, end = span
    token = text[start:end]
    return start + len(token) - len(token.lstrip()), end


def _target_sites(
    text: str,
    target: tuple[int, int],
    regular: Sequence[int],
    spans: Sequence[tuple[int, int]],
) -> tuple[int, ...]:
    """The tokens of the target; raises if one reaches beyond it into the words around."""
    first, last = target
    sites = []
    for t in regular:
        start, end = _without_leading_space(text, spans[t])
        if start >= last or end <= first:
            continue  # outside of the target
        if start < first or end > last:
            raise InputError(
                f"the token {text[start:end]!r} is only partly in the target: give whole words"
            )
        sites.append(t)
    if not sites:
        raise InputError(f"the target {text[first:last]!r} has no token: give a word")
    return tuple(sites)
