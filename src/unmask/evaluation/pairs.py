"""Pairs of positions to evaluate: chosen from texts with a seed, or given by the user.

`contiguous` takes two adjacent tokens, `random` two distinct positions, uniformly among those of regular tokens. Texts come
in a seeded order, and the r-th pair of text i is a function of (seed, i, r) alone, drawn without replacement: asking for more
pairs keeps those already chosen, and a file with fewer texts than pairs gives several pairs per text.

A file of pairs has JSON Lines, one {"text": ..., "block": [i, j]} per line; further keys are carried through. Positions are
counted in the model's tokens, the start token included. `syntactic_distance` and `text_index` are read where they are present, so
that the pairs of one run (DIR/pairs.jsonl) can be given to another.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from unmask.checks import whole
from unmask.cloze import Cloze, blanked
from unmask.errors import InputError, UnmaskError
from unmask.evaluation.datasets import Text
from unmask.options.scoring import Scheme
from unmask.runs.files import parse_json, user_path
from unmask.runs.lines import numbered_lines, source_name

Encode = Callable[[str], Sequence[int]]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class PositionPair:
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
        return blanked(self.ids, self.block, mask_id)


def choose_pairs(
    texts: Sequence[Text],
    encode: Encode,
    special_ids: Sequence[int],
    scheme: str,
    count: int,
    seed: int,
    max_tokens: int | None = None,
) -> tuple[list[PositionPair], Counter[str]]:
    """`count` different pairs, and how many of the texts looked at were skipped, by reason: refused by `encode`, too long, or
    without a pair."""
    special, skipped, pairs = frozenset(special_ids), Counter[str](), list[PositionPair]()
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(texts))]
    encoded: dict[int, tuple[int, ...]] = {}
    blocks: dict[int, Iterator[tuple[int, int]]] = {}
    for draw in range(count):
        more = []
        for i in order:
            if draw == 0:
                reason, encoded[i] = _encode(texts[i].text, encode, max_tokens)
                places, total = _places(encoded[i], special, scheme)
                if not reason and total == 0:
                    reason = "fewer than two regular tokens" if scheme == "random" else "no two adjacent regular tokens"
                if reason:
                    skipped[reason] += 1
                    continue
                blocks[i] = _blocks(places, total, scheme, np.random.default_rng([seed, i]))
            if block := next(blocks[i], None):
                pairs.append(PositionPair(len(pairs), i, texts[i].text, encoded[i], block))
                more.append(i)
                if len(pairs) == count:
                    return pairs, skipped
        order = more
        if not order:
            break
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


def _places(ids: Sequence[int], special: frozenset[int], scheme: str) -> tuple[list[int], int]:
    """The positions that pairs are made of, or begin at where they are contiguous, and how many pairs there are."""
    regular = [t for t, token in enumerate(ids) if token not in special]
    if scheme == "contiguous":
        adjacent = [t for t, after in zip(regular, regular[1:], strict=False) if after == t + 1]
        return adjacent, len(adjacent)
    return regular, len(regular) * (len(regular) - 1) // 2


def _blocks(places: Sequence[int], total: int, scheme: str, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Every possible pair once, in uniformly random order."""
    seen = set[int]()
    while len(seen) < total:
        rank = int(rng.integers(total))
        if rank in seen:
            continue
        seen.add(rank)
        if scheme == "contiguous":
            yield places[rank], places[rank] + 1
            continue
        later = 1
        while rank >= later:
            rank, later = rank - later, later + 1
        yield places[rank], places[later]


KNOWN_KEYS = ("text", "block", "text_index", "syntactic_distance")
EXAMPLE = '{"text": "...", "block": [i, j]}'


def read_pairs(
    path: str | os.PathLike[str],
    encode: Encode,
    special_ids: Collection[int],
    reserved: Iterable[str],
    max_tokens: int | None,
) -> list[PositionPair]:
    """The pairs of a file; every problem is an error that names the line. `reserved` are names that a further key cannot have."""
    special, reserved = frozenset(special_ids), frozenset(reserved)
    pairs: list[PositionPair] = []
    file = user_path(path, "pairs_file")
    for number, line in numbered_lines(file):
        if not line.strip():
            continue
        try:
            pairs.append(_read_pair(line, len(pairs), encode, special, reserved, max_tokens))
        except UnmaskError as error:
            raise InputError(f"{source_name(file)} line {number}: {error}") from None
    if not pairs:
        raise InputError(f"{source_name(file)!r} holds no pair: give one JSON object per line with the keys text and block")
    return pairs


def _read_pair(
    line: str, index: int, encode: Encode, special: frozenset[int], reserved: frozenset[str], max_tokens: int | None
) -> PositionPair:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InputError(f"{error}: write {EXAMPLE}") from None
    if not isinstance(row, dict):
        raise InputError(f"a JSON {type(row).__name__}, not an object: write {EXAMPLE}")
    text, block = row.get("text"), row.get("block")
    if not isinstance(text, str):
        raise InputError('no text: give "text" as a string')
    if not (isinstance(block, list) and len(block) == 2 and all(type(i) is int for i in block)):
        raise InputError(f"block {_short(block)} is not a pair of positions: give two whole numbers, as [3, 4]")
    ids = tuple(int(i) for i in encode(text))
    _check_block(ids, block, special, max_tokens)
    known = {key: whole(key, row[key], 0, 2**63 - 1) for key in ("text_index", "syntactic_distance") if row.get(key) is not None}
    extra = {key: value for key, value in row.items() if key not in KNOWN_KEYS}
    for key in extra:
        if key in reserved:
            raise InputError(f"key {key!r} is the name of a result: rename it")
        if not key or not key.isprintable():
            raise InputError(f"key {key!r} cannot name a column: rename it")
    return PositionPair(
        index, known.get("text_index", index), text, ids, (block[0], block[1]), known.get("syntactic_distance"), extra
    )


def _check_block(ids: tuple[int, ...], block: list[int], special: frozenset[int], max_tokens: int | None) -> None:
    if max_tokens is not None and len(ids) > max_tokens:
        raise InputError(f"the text has {len(ids)} tokens, the model takes {max_tokens}: shorten it")
    regular = sum(token not in special for token in ids)
    if regular < 2:
        raise InputError(f"the text has {regular} regular token{'s' * (regular != 1)}: a pair needs two")
    for position in block:
        if not 0 <= position < len(ids):
            raise InputError(f"position {position} of block {block} is outside the text: its tokens are 0 to {len(ids) - 1}")
        if ids[position] in special:
            raise InputError(f"position {position} of block {block} is not a regular token: choose one that is")
    if block[0] == block[1]:
        raise InputError(f"block {block} names one position twice: give two different positions")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def pairs_as_lines(pairs: Iterable[PositionPair]) -> str:
    """The pairs in the format that `read_pairs` reads."""
    lines = []
    for pair in pairs:
        row: dict[str, object] = {"text": pair.text, "block": list(pair.block), "text_index": pair.text_index}
        if pair.syntactic_distance is not None:
            row["syntactic_distance"] = pair.syntactic_distance
        lines.append(json.dumps({**row, **pair.extra}, ensure_ascii=False, allow_nan=True) + "\n")
    return "".join(lines)
