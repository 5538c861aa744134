"""Reading corpora and cutting lines into segments, and what is said about files that cannot be
read.
"""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.made_up import made_up_lines
from unmask.common.errors import InputError
from unmask.studies.training.corpus import Segmentation, TextSource, segments, sentences, sources
from unmask.studies.training.word_piece_training import train_tokenizer

TEXT = "Grüße aus dem Hafen.\n\n  The second line.  \nThe last line"
LINES = ["Grüße aus dem Hafen.", "The second line.", "The last line"]


def read(path):
    return list(TextSource.file(path).lines())


def test_all_formats_give_the_same_lines(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"text": line, "id": 1}) for line in LINES)
    )
    for name in ("a.txt", "a.txt.gz", "a.txt.xz", "a.jsonl"):
        assert read(tmp_path / name) == LINES
    (source,) = sources([*TEXT.split("\n"), "two\nlines"])
    assert list(source.lines()) == [*LINES, "two lines"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"body": "two"}', 'no text under "text"'),
        ('["text"]', 'no text under "text"'),
        ('{"text": "cut', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "a", "n": ' + "9" * 5000 + "}", "digits"),
        (r'{"text": "half \ud800 of it"}', "half of a surrogate pair"),
    ],
    ids=lambda value: value[:24],
)
def test_lines_of_json_that_hold_no_text(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n' + line + "\n")
    with pytest.raises(InputError, match=f"a.jsonl line 2: .*{message}.*give lines like") as told:
        read(path)
    assert "\n" not in str(told.value)


def test_half_of_a_surrogate_pair_in_memory_is_refused():
    (source,) = sources(["good", "half \ud800"])
    with pytest.raises(InputError, match="text 2: half of a surrogate pair"):
        list(source.lines())


def test_sources_that_cannot_be_used(tmp_path):
    with pytest.raises(InputError, match="is not a file"):
        sources(tmp_path / "missing.txt")
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(InputError, match="unknown ending"):
        sources([tmp_path / "a.pdf"])
    with pytest.raises(InputError, match="is not a file"):
        sources([str(tmp_path)])
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(
        InputError, match="2 weights for 1 corpus files: give one --weight per file"
    ):
        sources([tmp_path / "a.txt"], [1.0, 2.0])
    with pytest.raises(InputError, match="names files, and 'A text.' is not a file"):
        sources([str(tmp_path / "a.txt"), "A text."])
    with pytest.raises(InputError, match="the corpus is empty"):
        sources([])


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
