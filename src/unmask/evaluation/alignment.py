"""Which words of a parse a model's token belongs to, by the characters that it covers.

A token belongs to every word that shares a non-blank character with it; tokens with no characters (special tokens) belong
to none. The syntactic distance of two tokens is the smallest distance between a word of one and a word of the other, so
it is 0 for two pieces of one word.
"""

from __future__ import annotations

from collections.abc import Sequence

from unmask.evaluation.conllu import Parse

Span = tuple[int, int]


def words_of_tokens(text: str, offsets: Sequence[Span], parse: Parse) -> list[tuple[int, ...]]:
    """For each token (characters [start, stop) of `text`), the words of `parse` that it belongs to."""
    owners: list[set[int]] = [set() for _ in text]
    for word, (start, stop) in enumerate(parse.spans):
        for place in range(start, stop):
            owners[place].add(word)
    return [
        tuple(sorted({w for place in range(start, stop) if not text[place].isspace() for w in owners[place]}))
        for start, stop in offsets
    ]


def syntactic_distance(parse: Parse, words: Sequence[int], others: Sequence[int]) -> int | None:
    """The smallest path length between a word of one token and a word of the other; None where a token has no word."""
    return min((parse.distance(w, o) for w in words for o in others), default=None)
