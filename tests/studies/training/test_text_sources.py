"""Reading the texts of a corpus, and what is said about files that cannot be read."""

from __future__ import annotations

import gzip
import json
import lzma

import pytest

from unmask.common.errors import InputError
from unmask.studies.training.text_sources import TextSource, sources

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
        InputError, match="weight has 2 numbers for 1 corpus files: give one per file"
    ):
        sources([tmp_path / "a.txt"], [1.0, 2.0])
    with pytest.raises(InputError, match="names files, and 'A text.' is not a file"):
        sources([str(tmp_path / "a.txt"), "A text."])
    with pytest.raises(InputError, match="data is empty"):
        sources([])
