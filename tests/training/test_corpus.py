"""Reading corpora and cutting lines into segments, and what is said about files that cannot be read."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from unmask.errors import InputError
from unmask.training.corpus import Source, read_lines, sources
from unmask.training.segments import Segmentation, Segmenter, sentences

TEXT = "Grüße aus dem Hafen.\n\n  The second line.  \nThe last line"
LINES = ["Grüße aus dem Hafen.", "The second line.", "The last line"]


def test_all_formats_give_the_same_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": line, "id": 1}) for line in LINES))
    for name in ("a.txt", "a.txt.gz", "a.txt.xz", "a.jsonl"):
        assert list(read_lines(tmp_path / name)) == LINES


def test_lines_across_read_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.training.corpus._BLOCK", 3)
    (tmp_path / "a.txt").write_text(TEXT)
    assert list(read_lines(tmp_path / "a.txt")) == LINES


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.xz"])
def test_undecodable_bytes_are_named_by_file_and_offset(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.training.corpus._BLOCK", 5)
    raw = "Grüße\nzwei\n".encode() + b"ab\xffcd\n"
    packed = {".txt": raw, ".txt.gz": gzip.compress(raw), ".txt.xz": lzma.compress(raw)}[ending]
    path = tmp_path / f"bad{ending}"
    path.write_bytes(packed)
    with pytest.raises(InputError, match=rf"bad{ending}: byte {raw.index(255)} \(line 3\) is not UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt.xz", b"not xz"), ("a.txt.gz", b"not gz"), ("b.txt.xz", lzma.compress(b"x" * 9999)[:-20])]
)
def test_damaged_archives(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="damaged or not a compressed file"):
        list(read_lines(tmp_path / name))


def test_jsonl_without_the_field(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"body": "two"}\n')
    with pytest.raises(InputError, match='line 2: no text under "text"'):
        list(read_lines(tmp_path / "a.jsonl"))
    (tmp_path / "b.jsonl").write_text('{"body": "two"}\n')
    assert list(read_lines(tmp_path / "b.jsonl", "body")) == ["two"]


def test_sources_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        Source(tmp_path / "missing.txt")
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(InputError, match="unknown ending"):
        Source(tmp_path / "a.pdf")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="weight 0"):
        Source(tmp_path / "a.txt", 0.0)
    with pytest.raises(InputError, match="2 weights for 1 corpus files"):
        sources([tmp_path / "a.txt"], [1.0, 2.0])


@given(st.text("Ab.!? \"'()9", max_size=60))
@settings(deadline=None)
def test_sentences_lose_nothing_but_white_space(line: str) -> None:
    assert "".join("".join(sentences(line)).split()) == "".join(line.split())


def test_sentences_end_where_people_think_they_do() -> None:
    line = 'He left. "Why?" she asked. (No answer.) At 3.5 miles it rained! Then night came.'
    assert sentences(line) == ["He left.", '"Why?" she asked.', "(No answer.)", "At 3.5 miles it rained!", "Then night came."]


@given(
    st.lists(st.lists(st.sampled_from(["farmer", "boats", "zzz", "old"]), min_size=1, max_size=30), min_size=1, max_size=6),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_segments_hold_all_tokens_within_the_length(words: list[list[str]], data: st.DataObject) -> None:
    tokenizer = _tokenizer()
    length = data.draw(st.integers(8, 24))
    line = " ".join("The " + " ".join(w) + "." for w in words)
    segmenter = Segmenter(tokenizer, Segmentation((length,), 24, 0.0))
    segments = segmenter([line])
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    assert all(s[0] == start and s[-1] == end and 3 <= len(s) <= 24 for s in segments)
    assert [i for s in segments for i in s[1:-1]] == tokenizer.encode(line, add_special_tokens=False).ids
    assert all(not segmenter.continues[s[1]] for s in segments)
    parts = [len(tokenizer.encode(s, add_special_tokens=False).ids) for s in sentences(line)]
    if max(parts) <= length - 2:
        assert all(len(s) <= length for s in segments)
        assert len(segments) < len(parts) or all(a + b > length - 2 for a, b in zip(parts, parts[1:], strict=False))


def test_lengths_and_holdout_depend_on_the_line_alone() -> None:
    cut = Segmentation((8, 16, 24), 24, 0.3)
    lines = [f"line number {i}" for i in range(3000)]
    lengths = [cut.length_for(line) for line in lines]
    assert all(abs(lengths.count(n) / 3000 - 1 / 3) < 0.05 for n in (8, 16, 24))
    held = [cut.holds_out(line) for line in lines]
    assert abs(sum(held) / 3000 - 0.3) < 0.05
    assert [cut.holds_out(line) for line in reversed(lines)] == held[::-1]


def _tokenizer() -> Tokenizer:
    from made_up import made_up_lines

    from unmask.training.tokenizer import count_words, train_tokenizer

    global _cached
    if _cached is None:
        _cached = train_tokenizer(count_words((line, 1) for line in [*made_up_lines(50), "zz z"]), 120)
    return _cached


_cached: Tokenizer | None = None
