import errno
import gzip
import lzma
import sys
from types import SimpleNamespace

import pytest

from unmask.errors import InputError
from unmask.runs import lines
from unmask.runs.lines import numbered_lines

TEXT = "\ufeffone\r\ntwo\n\n\N{SNOWMAN}\n"


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)])
def test_lines_with_their_numbers(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert list(numbered_lines(tmp_path / name)) == [(1, "one"), (2, "two"), (3, ""), (4, "\N{SNOWMAN}")]


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress)])
def test_a_damaged_archive_is_one_line(tmp_path, name, pack):
    whole = pack(TEXT.encode() * 50)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in [*(whole[:cut] for cut in range(1, len(whole))), bytes(flipped), b"plain text\n"]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="is damaged .*: make the file again") as error:
            list(numbered_lines(tmp_path / name))
        assert "\n" not in str(error.value) and name in str(error.value)


def test_endings_may_be_in_capitals(tmp_path):
    (tmp_path / "A.FASTA.GZ").write_bytes(gzip.compress(b">one\nMKT\nLL\n"))
    assert list(lines.plain_texts(tmp_path / "A.FASTA.GZ")) == ["MKTLL"]
    (tmp_path / "A.CSV").write_text("Text,b\nThe dog ran.,1\n")
    assert list(lines.plain_texts(tmp_path / "A.CSV")) == ["The dog ran."]
    with pytest.raises(InputError, match="A.CSV holds a table by its name"):
        list(lines.text_lines(tmp_path / "A.CSV"))


def test_bytes_that_are_no_text_have_a_line_and_a_place(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\nbad \xff\n")
    with pytest.raises(InputError, match="a.txt line 2: byte 9 is not UTF-8: convert it"):
        list(numbered_lines(tmp_path / "a.txt"))


def test_standard_input_that_cannot_be_read_is_called_that(monkeypatch):
    class Folder:
        def __iter__(self):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Folder()))
    with pytest.raises(InputError, match="'standard input' is a folder: give a file"):
        list(numbered_lines(lines.STANDARD_INPUT))
