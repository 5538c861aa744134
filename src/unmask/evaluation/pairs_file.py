"""Pairs given by the user: JSON Lines, one {"text": ..., "block": [i, j]} a line, further keys carried through.

Positions are counted in the model's tokens, the start token included. `syntactic_distance` and `text_index` are understood
where they are present, so that the pairs of one run (DIR/pairs.jsonl) can be given to another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from unmask.errors import InputError, UnmaskError
from unmask.evaluation.datasets import read_lines
from unmask.evaluation.pairs import Encode, Pair

KNOWN_KEYS = ("text", "block", "text_index", "syntactic_distance")


def read_pairs(
    path: str, encode: Encode, special_ids: Sequence[int], reserved: Iterable[str], max_tokens: int | None
) -> list[Pair]:
    """The pairs of a file; every problem is an error that names the line. `reserved` are names that a further key cannot have."""
    special, reserved = frozenset(special_ids), frozenset(reserved)
    pairs: list[Pair] = []
    for number, line in enumerate(read_lines(Path(path).expanduser()), 1):
        if not line.strip():
            continue
        try:
            pairs.append(_read_pair(line, len(pairs), encode, special, reserved, max_tokens))
        except UnmaskError as error:
            raise InputError(f"{path} line {number}: {error}") from None
    if not pairs:
        raise InputError(f"{path!r} holds no pair: give one JSON object a line with the keys text and block")
    return pairs


def _read_pair(
    line: str, index: int, encode: Encode, special: frozenset[int], reserved: frozenset[str], max_tokens: int | None
) -> Pair:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f'not JSON ({error.msg} at column {error.colno}): write {{"text": "...", "block": [i, j]}}') from None
    if not isinstance(row, dict):
        raise InputError(f'a JSON {type(row).__name__}, not an object: write {{"text": "...", "block": [i, j]}}')
    text, block = row.get("text"), row.get("block")
    if not isinstance(text, str):
        raise InputError('no text: give "text" as a string')
    if not (isinstance(block, list) and len(block) == 2 and all(type(i) is int for i in block)):
        raise InputError(f"block {json.dumps(block)} is not a pair of positions: give two whole numbers, as [3, 4]")
    ids = tuple(int(i) for i in encode(text))
    _check_block(ids, block, special, max_tokens)
    for key in ("text_index", "syntactic_distance"):
        if row.get(key) is not None and type(row[key]) is not int:
            raise InputError(f"{key} {json.dumps(row[key])} is not a whole number: correct it or leave it out")
    extra = {key: value for key, value in row.items() if key not in KNOWN_KEYS}
    taken = sorted(reserved & extra.keys())
    if taken:
        raise InputError(f"key {taken[0]!r} is the name of a result: rename it")
    where = row.get("text_index")
    return Pair(index, index if where is None else where, text, ids, (block[0], block[1]), row.get("syntactic_distance"), extra)


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
            raise InputError(f"position {position} of block {block} is a special token: choose a regular one")
    if block[0] == block[1]:
        raise InputError(f"block {block} names one position twice: give two different positions")


def pairs_as_lines(pairs: Iterable[Pair]) -> str:
    """The pairs in the format that `read_pairs` reads."""
    lines = []
    for pair in pairs:
        row: dict[str, object] = {"text": pair.text, "block": list(pair.block), "text_index": pair.text_index}
        if pair.syntactic_distance is not None:
            row["syntactic_distance"] = pair.syntactic_distance
        lines.append(json.dumps({**row, **pair.extra}, ensure_ascii=False, allow_nan=True) + "\n")
    return "".join(lines)
