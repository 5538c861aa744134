"""Lines are cut into sentences and segments, and held out by their hash."""

from __future__ import annotations

import itertools
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from support.made_up import made_up_lines
from unmask.studies.training.segmentation import Segmentation, segments, sentences
from unmask.studies.training.word_piece_training import train_tokenizer


@given(st.text("Ab.!? \"'()9", max_size=60))
@settings(deadline=None)
def test_sentences_lose_nothing_but_white_space(line):
    assert "".join("".join(sentences(line)).split()) == "".join(line.split())


def test_sentences_end_where_people_think_they_do():
    line = 'He left. "Why?" she asked. (No answer.) At 3.5 miles it rained! Then night came.'
    assert sentences(line) == [
        "He left.",
        '"Why?" she asked.',
        "(No answer.)",
        "At 3.5 miles it rained!",
        "Then night came.",
    ]


@given(
    st.lists(
        st.lists(st.sampled_from(["farmer", "boats", "zzz", "old"]), min_size=1, max_size=30),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_segments_hold_all_tokens_within_the_length(words, data):
    tokenizer = _tokenizer()
    length = data.draw(st.integers(8, 24))
    line = " ".join("The " + " ".join(w) + "." for w in words)
    made = segments(tokenizer, Segmentation((length,), 24, 0.0), [line])
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    assert all(s[0] == start and s[-1] == end and 3 <= len(s) <= 24 for s in made)
    assert [i for s in made for i in s[1:-1]] == tokenizer.encode(
        line, add_special_tokens=False
    ).ids
    assert not any(tokenizer.id_to_token(s[1]).startswith("##") for s in made)
    parts = [len(tokenizer.encode(s, add_special_tokens=False).ids) for s in sentences(line)]
    if max(parts) <= length - 2:
        assert all(len(s) <= length for s in made)
        assert len(made) < len(parts) or all(
            a + b > length - 2 for a, b in itertools.pairwise(parts)
        )


def test_lengths_and_holdout_depend_on_the_line_alone():
    cut = Segmentation((8, 16, 24), 24, 0.3)
    lines = [f"line number {i}" for i in range(3000)]
    lengths = [cut.length_for(line) for line in lines]
    assert all(abs(lengths.count(n) / 3000 - 1 / 3) < 0.05 for n in (8, 16, 24))
    held = [cut.holds_out(line) for line in lines]
    assert abs(sum(held) / 3000 - 0.3) < 0.05
    assert [cut.holds_out(line) for line in reversed(lines)] == held[::-1]


@cache
def _tokenizer():
    return train_tokenizer(lambda: [*made_up_lines(50), "zz z"], 120)
