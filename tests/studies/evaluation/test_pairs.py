"""Pairs of positions: chosen from texts, or read from a file."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common.errors import InputError
from unmask.studies.evaluation.pairs import choose_pairs, pairs_as_lines, read_pairs
from unmask.studies.evaluation.sources import Text

SCHEMES = ("random", "contiguous")

SPECIAL = (0, 1, 2)
"""Start, end, unknown."""


def encode(text: str) -> list[int]:
    """One token per letter; x is unknown, ! is refused."""
    if "!" in text:
        raise InputError("an exclamation mark: remove it")
    return [0, *(2 if letter == "x" else ord(letter) for letter in text), 1]


def choose(texts: list[str], scheme: str, count: int, seed: int = 0, max_tokens: int | None = None):
    return choose_pairs([Text(t) for t in texts], encode, SPECIAL, scheme, count, seed, max_tokens)


def possible(text: str, scheme: str) -> set[tuple[int, int]]:
    places = [i for i, letter in enumerate(text, 1) if letter != "x"]
    pairs = {(i, j) for i in places for j in places if i < j}
    return {(i, j) for i, j in pairs if scheme == "random" or j == i + 1}


texts = st.lists(st.text("abcx", min_size=1, max_size=7), min_size=1, max_size=6)


@given(texts, st.sampled_from(SCHEMES), st.integers(0, 5))
def test_all_pairs_are_possible_ones_and_none_comes_twice(texts, scheme, seed):
    everything = {(i, pair) for i, text in enumerate(texts) for pair in possible(text, scheme)}
    if not everything:
        return
    chosen, _ = choose(texts, scheme, len(everything), seed)
    assert {(pair.text_index, pair.block) for pair in chosen} == everything
    assert [pair.index for pair in chosen] == list(range(len(everything)))
    for pair in chosen:
        assert not set(pair.gold) & set(SPECIAL)
        assert pair.token_distance == pair.block[1] - pair.block[0] - 1
        masked = pair.cloze(mask_id=9)
        assert masked.filled(pair.gold) == pair.ids == tuple(encode(texts[pair.text_index]))
        assert [
            t
            for t, (now, before) in enumerate(zip(masked.ids, pair.ids, strict=True))
            if now != before
        ] == list(pair.block)
    with pytest.raises(InputError, match=f"give only {len(everything)} different {scheme} pairs"):
        choose(texts, scheme, len(everything) + 1, seed)


@given(texts, st.sampled_from(SCHEMES), st.integers(0, 5))
def test_more_pairs_keep_those_already_chosen(texts, scheme, seed):
    total = sum(len(possible(text, scheme)) for text in texts)
    if total:
        whole = choose(texts, scheme, total, seed)[0]
        assert all(choose(texts, scheme, n, seed)[0] == whole[:n] for n in range(1, total + 1))


def test_the_pair_of_a_text_depends_on_the_seed_and_its_place_only():
    first = choose(["abcdefg", "aaaa", "bcbcbc"], "random", 3, seed=4)[0]
    other = choose(["abcdefg", "cc", "b"], "random", 2, seed=4)[0]
    same = {pair.text_index: pair.block for pair in first}
    assert {pair.text_index: pair.block for pair in other}[0] == same[0]
    blocks = {choose(["abcdefghijklmnop"], "random", 1, seed)[0][0].block for seed in range(10)}
    assert len(blocks) > 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pairs_are_uniform(scheme):
    """Chi-square over the pairs of one text in many places; 0.999 quantile."""
    from scipy.stats import chi2

    text = "abxcde"
    counts = Counter(pair.block for pair in choose([text] * 3000, scheme, 3000)[0])
    cells = possible(text, scheme)
    assert set(counts) == cells
    expected = 3000 / len(cells)
    assert sum((counts[c] - expected) ** 2 / expected for c in cells) < chi2.ppf(
        0.999, len(cells) - 1
    )


def test_texts_that_cannot_give_a_pair_are_skipped_and_counted():
    chosen, _ = choose(["a", "ax", "abcdefgh", "ab", "b!a", "axb"], "contiguous", 1, max_tokens=8)
    assert [pair.text for pair in chosen] == ["ab"]
    with pytest.raises(InputError, match="2 texts skipped: fewer than two regular tokens"):
        choose(["a", "ax", "ab"], "random", 2)
    _, skipped = choose(["a", "ax", "abcdefgh", "b!a", "ab"] * 20, "random", 20, max_tokens=8)
    assert skipped.keys() == {
        "fewer than two regular tokens",
        "more than 8 tokens",
        "the tokenizer refuses it",
    }


def read(path, lines: list[str]):
    path.write_text("\n".join(lines))
    return read_pairs(str(path), encode, (0, 1), 8)


def test_pairs_keep_their_order(tmp_path):
    lines = [
        '{"text": "abc", "block": [3, 1], "source": "me"}',
        "",
        '{"block": [1, 2], "text": "ab"}',
    ]
    first, second = read(tmp_path / "pairs.jsonl", lines)
    assert (first.block, first.gold, second.index, second.text_index) == (
        (3, 1),
        (ord("c"), ord("a")),
        1,
        1,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "abc"}', "line 2: block None is not a pair of positions"),
        (
            '{"text": "abc", "block": [1, 5]}',
            r"line 2: position 5 of block \[1, 5\] is outside the text: its tokens are 0 to 4",
        ),
        (
            '{"text": "abc", "block": [0, 2]}',
            r"line 2: position 0 of block \[0, 2\] is not a regular token",
        ),
        ('{"text": "abc", "block": [2, 2]}', r"line 2: block \[2, 2\] names one position twice"),
        (
            '{"text": "abcdefgh", "block": [1, 2]}',
            "line 2: the text has 10 tokens, the model takes 8",
        ),
        (
            '{"text": "abc", "block": [1, 2], "syntactic_distance": "far"}',
            "line 2: syntactic_distance",
        ),
        (
            '{"text": "abc", "block": [1, 2], "text_index": -1}',
            "line 2: text_index -1 is out of range",
        ),
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
            assert "\n" not in str(error)
            assert "pairs.jsonl" in str(error)
            assert any(part in str(error) for part in (" line ", "holds no pair", "zero byte"))
            return
        assert [pair.index for pair in pairs] == list(range(len(pairs)))
        again = Path(folder) / "again.jsonl"
        again.write_text(pairs_as_lines(pairs), encoding="utf-8")
        assert pairs_as_lines(read_pairs(again, encode, (0, 1), 8)) == pairs_as_lines(pairs)
