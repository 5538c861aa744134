"""Pairs of positions in texts: chosen with a seed, or given by the user.

`contiguous` takes two adjacent tokens, `random` two distinct positions, uniformly among those
of regular tokens. Texts come in a seeded order, and the r-th pair of text i is a function of
(seed, i, r) alone, drawn without replacement: asking for more pairs keeps those already chosen,
and a file with fewer texts than pairs gives several pairs per text.

A file of blocks has JSON Lines, one {"text": ..., "block": [i, j]} per line. Positions are
indices of the model's tokens, from 0, the start token included. `syntactic_distance` and
`text_index` are read where they are present, so that the pairs of one run (DIR/pairs.jsonl) can be
given to another.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np

from unmask.common.checks import shown
from unmask.common.cloze import Cloze, blanked
from unmask.common.errors import InputError, UnmaskError, argument_name
from unmask.common.files import user_path
from unmask.runs.lines import records
from unmask.runs.unpacking import source_name
from unmask.studies.evaluation.sources import Text

LARGEST = 2**63 - 1
"""The largest whole number that a row of a run can keep, 64 bits with a sign."""

Encode = Callable[[str], Sequence[int]]
"""The token ids of a text, with those that the model expects around it."""


@dataclass(frozen=True)
class PositionPair:
    """Two positions of a text, counted in the model's tokens with the start token; `ids` has
    the gold tokens in place.
    """

    index: int
    text_index: int
    text: str
    ids: tuple[int, ...]
    block: tuple[int, int]
    syntactic_distance: int | None = None

    @property
    def token_distance(self) -> int:
        """Tokens between the two: 0 when they are adjacent, as in appendix E of Torroba
        Hennigen & Kim (2023).
        """
        return abs(self.block[0] - self.block[1]) - 1

    @property
    def gold(self) -> tuple[int, int]:
        return self.ids[self.block[0]], self.ids[self.block[1]]

    def cloze(self, mask_id: int) -> Cloze:
        """The text with the pair blanked."""
        return blanked(self.ids, self.block, mask_id)


# ---- chosen with a seed ----


class Unusable(Exception):
    """A text gives no pair; the reason is the message."""


@dataclass
class _Remaining:
    """A text, and the pairs of it that are not chosen yet."""

    text_index: int
    text: str
    ids: tuple[int, ...]
    blocks: Iterator[tuple[int, int]]


def choose_pairs(
    texts: Sequence[Text],
    encode: Encode,
    special_ids: Sequence[int],
    scheme: str,
    count: int,
    seed: int,
    max_tokens: int | None = None,
) -> tuple[list[PositionPair], Counter[str]]:
    """`count` different pairs, and how many of the texts looked at were skipped, by reason:
    refused by `encode`, too long, or without a pair.

    Rounds go through the texts in one seeded order, and take a pair from each that has one left.
    """
    special = frozenset(special_ids)
    skipped: Counter[str] = Counter()
    pairs: list[PositionPair] = []

    def first_round() -> Iterator[_Remaining]:
        for i in np.random.default_rng(seed).permutation(len(texts)).tolist():
            text = texts[i].text
            try:
                ids = _encoded(text, encode, max_tokens)
                blocks = _blocks(ids, special, scheme, np.random.default_rng([seed, i]))
            except Unusable as reason:
                skipped[str(reason)] += 1
                continue
            yield _Remaining(i, text, ids, blocks)

    # texts are encoded as they are needed: few pairs of a long file look at few of its texts
    in_order: Iterable[_Remaining] = first_round()
    for _ in range(count):  # rounds; each gives at least one pair, or is the last
        with_more: list[_Remaining] = []
        for remaining in in_order:
            block = next(remaining.blocks, None)
            if block is None:
                continue
            pair = PositionPair(
                index=len(pairs),
                text_index=remaining.text_index,
                text=remaining.text,
                ids=remaining.ids,
                block=block,
            )
            pairs.append(pair)
            if len(pairs) == count:
                return pairs, skipped
            with_more.append(remaining)
        in_order = with_more
        if not with_more:
            break
    left_out = "".join(f"; {n} texts skipped: {reason}" for reason, n in skipped.items())
    fewer = argument_name("pairs")  # the number may be ours, so that it is not to blame
    raise InputError(
        f"{count} pairs are to be measured, but the {len(texts)} texts give only {len(pairs)}"
        f" different {scheme} pairs{left_out}: give more text, or fewer {fewer}"
    )


def _encoded(text: str, encode: Encode, max_tokens: int | None) -> tuple[int, ...]:
    try:
        ids = tuple(int(i) for i in encode(text))
    except InputError:
        raise Unusable("the tokenizer refuses it") from None
    if max_tokens is not None and len(ids) > max_tokens:
        raise Unusable(f"more than {max_tokens} tokens")
    return ids


def _blocks(
    ids: Sequence[int], special: frozenset[int], scheme: str, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Every pair that the scheme allows in this text once, in uniformly random order.

    A text without such a pair is `Unusable` at once, before the first pair is asked for. So this
    function has no `yield` of its own.
    """
    regular = [t for t, token in enumerate(ids) if token not in special]
    if scheme == "contiguous":
        starts = [t for t, after in pairwise(regular) if after == t + 1]
        if not starts:
            raise Unusable("no two adjacent regular tokens")
        chosen = (starts[rank] for rank in _ranks(len(starts), rng))
        return ((start, start + 1) for start in chosen)
    total = len(regular) * (len(regular) - 1) // 2
    if total == 0:
        raise Unusable("fewer than two regular tokens")
    places = (_pair_of_rank(rank) for rank in _ranks(total, rng))
    return ((regular[earlier], regular[later]) for earlier, later in places)


def _ranks(total: int, rng: np.random.Generator) -> Iterator[int]:
    """0, ..., total - 1 in uniformly random order, one by one.

    A number that came before is drawn again. Few of the pairs of a long text are asked for, and a
    permutation would need a number for each.
    """
    seen: set[int] = set()
    while len(seen) < total:
        rank = int(rng.integers(total))
        if rank not in seen:
            seen.add(rank)
            yield rank


def _pair_of_rank(rank: int) -> tuple[int, int]:
    """The pair (earlier, later) with this rank among (0, 1), (0, 2), (1, 2), (0, 3), (1, 3), ..."""
    earlier = rank
    later = 1
    while earlier >= later:  # the pairs that end at `later` are `later` many
        earlier -= later
        later += 1
    return earlier, later


# ---- files of blocks ----


def read_pairs(
    path: str | os.PathLike[str],
    encode: Encode,
    special_ids: Collection[int],
    max_tokens: int | None,
) -> list[PositionPair]:
    """The pairs of a file; every problem is an error that names the line."""
    special = frozenset(special_ids)
    file = user_path(path, "blocks")
    pairs: list[PositionPair] = []
    for where, record in records(file, ".jsonl"):
        if not record:
            continue
        try:
            pair = _read_pair(record, len(pairs), encode, special, max_tokens=max_tokens)
        except UnmaskError as error:
            raise InputError(f"{where}: {error.marked}") from None
        pairs.append(pair)
    if not pairs:
        raise InputError(
            f"{source_name(file)!r} holds no pair",
            argument="blocks",
            use="give one JSON object per line with the keys text and block",
        )
    return pairs


def _read_pair(
    record: Mapping[str, Any],
    index: int,
    encode: Encode,
    special: frozenset[int],
    max_tokens: int | None,
) -> PositionPair:
    text = record.get("text")
    if not isinstance(text, str):
        raise InputError('no text: give "text" as a string')
    block = record.get("block")
    if not _two_whole_numbers(block):
        raise InputError(
            f"block {shown(block)} is not a pair of positions: give two whole numbers, as [3, 4]"
        )
    ids = tuple(int(i) for i in encode(text))
    if max_tokens is not None and len(ids) > max_tokens:
        raise InputError(
            f"the text has {len(ids)} tokens, the model takes {max_tokens}: shorten it"
        )
    for position in block:
        if not 0 <= position < len(ids):
            raise InputError(
                f"position {position} of block {block} is outside the text: its tokens are 0 to"
                f" {len(ids) - 1}"
            )
        if ids[position] in special:
            raise InputError(
                f"position {position} of block {block} is not a regular token: choose one that is"
            )
    first, second = block
    if first == second:
        raise InputError(f"block {block} names one position twice: give two different positions")
    text_index = _whole_number(record, "text_index")
    return PositionPair(
        index=index,
        text_index=index if text_index is None else text_index,
        text=text,
        ids=ids,
        block=(first, second),
        syntactic_distance=_whole_number(record, "syntactic_distance"),
    )


def _two_whole_numbers(block: object) -> TypeGuard[list[int]]:
    """Whether the block is a list of two whole numbers."""
    if not isinstance(block, list) or len(block) != 2:
        return False
    # JSON's true and false are whole numbers for `isinstance`, so types are compared.
    return all(type(position) is int for position in block)


def _whole_number(record: Mapping[str, Any], key: str) -> int | None:
    """What stands under a key that may be absent or null."""
    value = record.get(key)
    if value is None:
        return None
    is_whole = type(value) is int
    if not is_whole or not 0 <= value <= LARGEST:
        problem = "out of range" if is_whole else "not a whole number"
        raise InputError(
            f"{key} {shown(value)} is {problem}: give a whole number from 0 to {LARGEST}"
        )
    return value


def pairs_as_lines(pairs: Iterable[PositionPair]) -> str:
    """The pairs in the format that `read_pairs` reads."""
    lines: list[str] = []
    for pair in pairs:
        row: dict[str, object] = {
            "text": pair.text,
            "block": list(pair.block),
            "text_index": pair.text_index,
        }
        if pair.syntactic_distance is not None:
            row["syntactic_distance"] = pair.syntactic_distance
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)
