"""A WordPiece vocabulary from word counts, by a rule that leaves nothing to chance.

Every word starts as its characters, all but the first marked by ##. The most frequent pair of neighbouring pieces is joined
wherever it occurs,

    (l, r) = argmax  sum_words count(word) * #{neighbours (l, r) in word},

and the joined piece enters the vocabulary, until it is full or no pair is left. Of pairs that are equally frequent, the one
first in alphabetical order is joined: equal counts give an equal vocabulary, in any process and on any machine.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

CONTINUES = "##"
"""Before a piece that continues a word."""

Pair = tuple[str, str]


def learn_pieces(words: Mapping[str, int], size: int, alphabet: int) -> list[str]:
    """At most `size` pieces of the `words` (word: count): the `alphabet` most frequent characters first, then joined pieces.

    A word with a character outside that alphabet takes no part: it will be unknown as a whole.
    """
    letters = _letters(words, alphabet)
    spelled = [(_spell(word), count) for word, count in words.items() if letters.issuperset(word)]
    single = {piece for pieces, _ in spelled for piece in pieces if piece.startswith(CONTINUES)}
    found = dict.fromkeys([*sorted(letters), *sorted(single - letters)])
    counts, where = _pairs(spelled)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(queue)
    while queue and len(found) < size:
        negative, pair = heapq.heappop(queue)
        if counts[pair] != -negative:
            continue
        found[join(pair)] = None
        for changed in _join_everywhere(pair, spelled, counts, where):
            if counts[changed] > 0:
                heapq.heappush(queue, (-counts[changed], changed))
    return list(found)[:size]


def join(pair: Pair) -> str:
    """The piece that two neighbours make: un and ##do make undo."""
    return pair[0] + pair[1].removeprefix(CONTINUES)


def _letters(words: Mapping[str, int], most: int) -> set[str]:
    seen: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            seen[letter] += count
    return set(sorted(seen, key=lambda letter: (-seen[letter], letter))[:most])


def _spell(word: str) -> list[str]:
    return [word[0], *(CONTINUES + letter for letter in word[1:])]


def _pairs(spelled: list[tuple[list[str], int]]) -> tuple[Counter[Pair], dict[Pair, list[int]]]:
    """How often each pair of neighbours occurs, and in which words."""
    counts: Counter[Pair] = Counter()
    where: dict[Pair, list[int]] = defaultdict(list)
    for index, (pieces, count) in enumerate(spelled):
        for pair in pairwise(pieces):
            counts[pair] += count
            where[pair].append(index)
    return counts, where


def _join_everywhere(
    pair: Pair, spelled: list[tuple[list[str], int]], counts: Counter[Pair], where: dict[Pair, list[int]]
) -> list[Pair]:
    """Join one pair in all words, from the left; the pairs whose counts changed by it."""
    left, right = pair
    joined = join(pair)
    change: dict[Pair, int] = defaultdict(int)
    for index in where.pop(pair):
        pieces, count = spelled[index]
        for at in _places(pieces, left, right):
            change[pair] -= count
            if at:
                change[pieces[at - 1], left] -= count
                change[pieces[at - 1], joined] += count
                where[pieces[at - 1], joined].append(index)
            if at + 2 < len(pieces):
                change[right, pieces[at + 2]] -= count
                change[joined, pieces[at + 2]] += count
                where[joined, pieces[at + 2]].append(index)
            pieces[at : at + 2] = [joined]
    changed = [key for key, by in change.items() if by]
    for key in changed:
        counts[key] += change[key]
    return changed


def _places(pieces: list[str], left: str, right: str) -> Iterator[int]:
    """Where `left` stands before `right`; the caller joins them before it asks for the next place."""
    at = 0
    while at < len(pieces) - 1:
        if pieces[at] == left and pieces[at + 1] == right:
            yield at
        at += 1
