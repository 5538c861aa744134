from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.errors import InputError
from unmask.evaluation.pairs import pairs_as_lines, read_pairs


def encode(text: str) -> list[int]:
    if not text:
        raise InputError("the text is empty: write one")
    return [0, *(ord(letter) for letter in text), 1]


def read(path, lines: list[str]):
    path.write_text("\n".join(lines))
    return read_pairs(str(path), encode, (0, 1), 8)


def test_pairs_keep_their_order(tmp_path):
    lines = ['{"text": "abc", "block": [3, 1], "source": "me"}', "", '{"block": [1, 2], "text": "ab"}']
    first, second = read(tmp_path / "pairs.jsonl", lines)
    assert (first.block, first.gold, second.index, second.text_index) == ((3, 1), (ord("c"), ord("a")), 1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"block": [1, 2]}', "line 2: no text"),
        ('{"text": "", "block": [1, 2]}', "line 2: the text is empty"),
        ('{"text": "abc"}', "line 2: block None is not a pair of positions"),
        ('{"text": "abc", "block": [1, 2, 3]}', r"line 2: block \[1, 2, 3\] is not a pair"),
        ('{"text": "abc", "block": [1, true]}', r"line 2: block \[1, True\] is not a pair"),
        ('{"text": "abc", "block": [1, 5]}', r"line 2: position 5 of block \[1, 5\] is outside the text: its tokens are 0 to 4"),
        ('{"text": "abc", "block": [0, 2]}', r"line 2: position 0 of block \[0, 2\] is not a regular token"),
        ('{"text": "abc", "block": [2, 2]}', r"line 2: block \[2, 2\] names one position twice"),
        ('{"text": "a", "block": [1, 2]}', r"line 2: position 2 of block \[1, 2\] is not a regular token"),
        ('{"text": "abcdefgh", "block": [1, 2]}', "line 2: the text has 10 tokens, the model takes 8"),
        ('{"text": "abc", "block": [1, 2], "syntactic_distance": "far"}', "line 2: syntactic_distance"),
        ('{"text": "abc", "block": [1, 2], "text_index": -1}', "line 2: text_index -1 is out of range"),
    ],
)
def test_every_problem_names_its_line(tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / "pairs.jsonl", ['{"text": "abc", "block": [1, 2]}', line])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
LINES = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["abc", "ab", ""]) | VALUES,
        "block": st.sampled_from([[1, 2], [2, 1]]) | VALUES,
        "text_index": VALUES,
        "syntactic_distance": VALUES,
    },
).map(json.dumps)


@given(st.lists(LINES | st.text(), max_size=4))
def test_any_lines_are_pairs_that_can_be_stored_or_one_line(lines):
    content = "\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.jsonl"
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            pairs = read_pairs(path, encode, (0, 1), 8)
        except InputError as error:
            assert "\n" not in str(error) and "pairs.jsonl" in str(error)
            assert " line " in str(error) or "holds no pair" in str(error)
            return
        assert [pair.index for pair in pairs] == list(range(len(pairs)))
        again = Path(folder) / "again.jsonl"
        again.write_text(pairs_as_lines(pairs), encoding="utf-8")
        assert pairs_as_lines(read_pairs(again, encode, (0, 1), 8)) == pairs_as_lines(pairs)
