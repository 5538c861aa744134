from __future__ import annotations

import json

import pytest

from unmask.errors import InputError
from unmask.evaluation.pairs_file import pairs_as_lines, read_pairs
from unmask.evaluation.results import COLUMNS


def encode(text: str) -> list[int]:
    if not text:
        raise InputError("the text is empty: write one")
    return [0, *(ord(letter) for letter in text), 1]


def read(path, lines: list[str]):
    path.write_text("\n".join(lines))
    return read_pairs(str(path), encode, (0, 1), COLUMNS, 8)


def test_pairs_keep_their_order_and_carry_further_keys(tmp_path):
    lines = [
        '{"text": "abc", "block": [3, 1], "source": "me", "n": 2.5}',
        "",
        '{"block": [1, 2], "text": "ab", "id": {"n": 1}}',
    ]
    first, second = read(tmp_path / "pairs.jsonl", lines)
    assert (first.block, first.gold, first.extra) == ((3, 1), (ord("c"), ord("a")), {"source": "me", "n": 2.5})
    assert (second.index, second.text_index, second.extra) == (1, 1, {"id": {"n": 1}})


def test_what_a_run_writes_can_be_read_again(tmp_path):
    lines = [json.dumps({"text": "añb", "block": [1, 2], "text_index": 7, "syntactic_distance": 3, "note": None})]
    pairs = read(tmp_path / "pairs.jsonl", lines)
    assert (pairs[0].text_index, pairs[0].syntactic_distance) == (7, 3)
    assert read(tmp_path / "again.jsonl", pairs_as_lines(pairs).splitlines()) == pairs


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "abc", "block": [1, 2]', r"line 2: not JSON \(Expecting ',' delimiter at column 32\)"),
        ('["abc", [1, 2]]', "line 2: a JSON list, not an object"),
        ('{"block": [1, 2]}', "line 2: no text"),
        ('{"text": 3, "block": [1, 2]}', "line 2: no text"),
        ('{"text": "", "block": [1, 2]}', "line 2: the text is empty"),
        ('{"text": "abc"}', "line 2: block null is not a pair of positions"),
        ('{"text": "abc", "block": [1, 2, 3]}', r"line 2: block \[1, 2, 3\] is not a pair"),
        ('{"text": "abc", "block": [1, true]}', r"line 2: block \[1, true\] is not a pair"),
        ('{"text": "abc", "block": [1, 2.0]}', r"line 2: block \[1, 2.0\] is not a pair"),
        ('{"text": "abc", "block": [1, 5]}', r"line 2: position 5 of block \[1, 5\] is outside the text: its tokens are 0 to 4"),
        ('{"text": "abc", "block": [-1, 2]}', "line 2: position -1"),
        ('{"text": "abc", "block": [0, 2]}', r"line 2: position 0 of block \[0, 2\] is a special token"),
        ('{"text": "abc", "block": [2, 2]}', r"line 2: block \[2, 2\] names one position twice"),
        ('{"text": "a", "block": [1, 2]}', "line 2: the text has 1 regular token: a pair needs two"),
        ('{"text": "abcdefgh", "block": [1, 2]}', "line 2: the text has 10 tokens, the model takes 8"),
        ('{"text": "abc", "block": [1, 2], "pair_nll": 1}', "line 2: key 'pair_nll' is the name of a result"),
        ('{"text": "abc", "block": [1, 2], "syntactic_distance": "far"}', "line 2: syntactic_distance"),
    ],
)
def test_every_problem_names_its_line(tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / "pairs.jsonl", ['{"text": "abc", "block": [1, 2]}', line])


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no pair"):
        read(tmp_path / "pairs.jsonl", [""])
