"""Pairs given by the user: JSON Lines, one {"text": ..., "block": [i, j]} per line, further keys carried through.

Positions are counted in the model's tokens, the start token included. `syntactic_distance` and `text_index` are understood
where they are present, so that the pairs of one run (DIR/pairs.jsonl) can be given to another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from typing import Any

from unmask.checks import whole
from unmask.errors import InputError, UnmaskError
from unmask.evaluation.pairs import Encode, Pair
from unmask.runs.files import parse_json, user_path
from unmask.runs.lines import numbered_lines, source_name

KNOWN_KEYS = ("text", "block", "text_index", "syntactic_distance")
EXAMPLE = '{"text": "...", "block": [i, j]}'


def read_pairs(
    path: str | os.PathLike[str],
    encode: Encode,
    special_ids: Collection[int],
    reserved: Iterable[str],
    max_tokens: int | None,
) -> list[Pair]:
    """The pairs of a file; every problem is an error that names the line. `reserved` are names that a further key cannot have."""
    special, reserved = frozenset(special_ids), frozenset(reserved)
    pairs: list[Pair] = []
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
) -> Pair:
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
    return Pair(index, known.get("text_index", index), text, ids, (block[0], block[1]), known.get("syntactic_distance"), extra)


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


def pairs_as_lines(pairs: Iterable[Pair]) -> str:
    """The pairs in the format that `read_pairs` reads."""
    lines = []
    for pair in pairs:
        row: dict[str, object] = {"text": pair.text, "block": list(pair.block), "text_index": pair.text_index}
        if pair.syntactic_distance is not None:
            row["syntactic_distance"] = pair.syntactic_distance
        lines.append(json.dumps({**row, **pair.extra}, ensure_ascii=False, allow_nan=True) + "\n")
    return "".join(lines)
