"""Pairs of positions to evaluate, chosen from texts with a seed.

`contiguous` takes two adjacent tokens, `random` two distinct positions, uniformly among those of regular tokens. Texts come
in a seeded order, and the r-th pair of text i is a function of (seed, i, r) alone, drawn without replacement: asking for more
pairs keeps those already chosen, and a file with fewer texts than pairs gives several pairs per text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from unmask.checks import one_of, whole
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.evaluation.datasets import Text
from unmask.options.evaluation import MOST_PAIRS, Scheme
from unmask.options.shared import LARGEST_SEED

Encode = Callable[[str], Sequence[int]]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class Pair:
    """Two positions of a text, counted in the model's tokens with the start token; `ids` has the gold tokens in place."""

    index: int
    text_index: int
    text: str
    ids: tuple[int, ...]
    block: tuple[int, int]
    syntactic_distance: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def token_distance(self) -> int:
        """Tokens between the two: 0 when they are adjacent, as in the paper's appendix E."""
        return abs(self.block[0] - self.block[1]) - 1

    @property
    def gold(self) -> tuple[int, int]:
        return self.ids[self.block[0]], self.ids[self.block[1]]

    def cloze(self, mask_id: int) -> Cloze:
        """The text with the pair blanked."""
        masked = tuple(mask_id if t in self.block else token for t, token in enumerate(self.ids))
        return Cloze(masked, self.block, self.gold)


@dataclass(frozen=True)
class Chosen:
    """The pairs, and how many of the texts looked at were left out, by reason."""

    pairs: list[Pair]
    skipped: Counter[str]


def choose_pairs(
    texts: Sequence[Text],
    encode: Encode,
    special_ids: Sequence[int],
    scheme: str,
    count: int,
    seed: int,
    max_tokens: int | None = None,
) -> Chosen:
    """`count` different pairs. A text that `encode` refuses, that is too long, or that has no pair is skipped and counted."""
    one_of("scheme", scheme, SCHEMES)
    whole("pairs", count, 1, MOST_PAIRS)
    whole("seed", seed, 0, LARGEST_SEED)
    special, skipped, pairs = frozenset(special_ids), Counter[str](), list[Pair]()
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(texts))]
    encoded: dict[int, tuple[int, ...]] = {}
    blocks: dict[int, Iterator[tuple[int, int]]] = {}
    for draw in range(count):
        more = []
        for i in order:
            if len(pairs) == count:
                return Chosen(pairs, skipped)
            if draw == 0:
                reason, encoded[i] = _encode(texts[i].text, encode, max_tokens)
                if not reason and _possible(encoded[i], special, scheme) == 0:
                    reason = "fewer than two regular tokens" if scheme == "random" else "no two adjacent regular tokens"
                if reason:
                    skipped[reason] += 1
                    continue
                blocks[i] = _blocks(encoded[i], special, scheme, np.random.default_rng([seed, i]))
            if block := next(blocks[i], None):
                pairs.append(Pair(len(pairs), i, texts[i].text, encoded[i], block))
                more.append(i)
        order = more
        if not order:
            break
    if len(pairs) == count:
        return Chosen(pairs, skipped)
    left_out = "".join(f"; {n} texts skipped: {reason}" for reason, n in skipped.items())
    raise InputError(
        f"{count} pairs were asked for, but the {len(texts)} texts give only {len(pairs)} different {scheme} pairs{left_out}: "
        "ask for fewer pairs or give more text"
    )


def _encode(text: str, encode: Encode, max_tokens: int | None) -> tuple[str, tuple[int, ...]]:
    try:
        ids = tuple(int(i) for i in encode(text))
    except InputError:
        return "the tokenizer refuses it", ()
    if max_tokens is not None and len(ids) > max_tokens:
        return f"more than {max_tokens} tokens", ()
    return "", ids


def _regular(ids: Sequence[int], special: frozenset[int]) -> list[int]:
    return [t for t, token in enumerate(ids) if token not in special]


def _adjacent(ids: Sequence[int], special: frozenset[int]) -> list[int]:
    regular = _regular(ids, special)
    return [t for t, after in zip(regular, regular[1:], strict=False) if after == t + 1]


def _possible(ids: Sequence[int], special: frozenset[int], scheme: str) -> int:
    if scheme == "contiguous":
        return len(_adjacent(ids, special))
    n = len(_regular(ids, special))
    return n * (n - 1) // 2


def _blocks(ids: Sequence[int], special: frozenset[int], scheme: str, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Every possible pair once, in uniformly random order."""
    regular, adjacent = _regular(ids, special), _adjacent(ids, special)
    total, seen = _possible(ids, special, scheme), set[int]()
    while len(seen) < total:
        rank = int(rng.integers(total))
        if rank in seen:
            continue
        seen.add(rank)
        if scheme == "contiguous":
            yield adjacent[rank], adjacent[rank] + 1
            continue
        later = 1
        while rank >= later:
            rank, later = rank - later, later + 1
        yield regular[rank], regular[later]
