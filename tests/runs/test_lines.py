import errno
import gzip
import io
import lzma
import sys
from types import SimpleNamespace

import pytest

from unmask.common.errors import InputError
from unmask.runs import lines
from unmask.runs.lines import numbered_lines, records
from unmask.runs.unpacking import STANDARD_INPUT

TEXT = "\ufeffone\r\ntwo\n\n\N{SNOWMAN}\n"


@pytest.mark.parametrize(
    ("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)]
)
def test_lines_with_their_numbers(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert list(numbered_lines(tmp_path / name)) == [
        (1, "one"),
        (2, "two"),
        (3, ""),
        (4, "\N{SNOWMAN}"),
    ]


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress)])
def test_a_damaged_archive_is_one_line(tmp_path, name, pack):
    whole = pack(TEXT.encode() * 50)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in [*(whole[:cut] for cut in range(1, len(whole))), bytes(flipped)]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="is damaged .*: make the file again") as error:
            list(numbered_lines(tmp_path / name))
        assert "\n" not in str(error.value)
        assert name in str(error.value)


def test_endings_may_be_in_capitals(tmp_path):
    (tmp_path / "A.FASTA.GZ").write_bytes(gzip.compress(b">one\nMKT\nLL\n"))
    assert list(lines.plain_texts(tmp_path / "A.FASTA.GZ")) == ["MKTLL"]
    (tmp_path / "A.CSV").write_text("Text,b\nThe dog ran.,1\n")
    assert list(lines.plain_texts(tmp_path / "A.CSV")) == ["The dog ran."]
    with pytest.raises(InputError, match="A.CSV holds a table by its name"):
        list(lines.text_lines(tmp_path / "A.CSV"))


def test_a_header_with_spaces_before_it_is_no_sequence(tmp_path):
    (tmp_path / "a.fa").write_text(" >one\nMKT \n\t>two\n  LL\n")
    assert list(lines.fasta_records(tmp_path / "a.fa")) == [("one", "MKT"), ("two", "LL")]


def test_bytes_that_are_no_text_have_a_line_and_a_place(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\nbad \xff\n")
    with pytest.raises(InputError, match="a.txt line 2: byte 9 is not UTF-8: convert it"):
        list(numbered_lines(tmp_path / "a.txt"))


def test_standard_input_that_cannot_be_read_is_called_that(monkeypatch):
    class Folder(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Folder()))
    with pytest.raises(InputError, match="'standard input' is a folder: give a file"):
        list(numbered_lines(STANDARD_INPUT))


PACK = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress}


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.xz", "a", "a.txt.GZ"])
def test_a_file_is_unpacked_by_its_content(tmp_path, monkeypatch, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    expected = [(1, "one"), (2, "two"), (3, ""), (4, "\N{SNOWMAN}")]
    assert list(numbered_lines(tmp_path / name)) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(TEXT.encode()))))
    assert list(numbered_lines(STANDARD_INPUT)) == expected


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"PK\x03\x04" + bytes(9), "a.xlsx", "a.xlsx is an Excel file: save it as CSV in UTF-8"),
        (
            b"PK\x03\x04" + bytes(9),
            "a.csv",
            (
                "a.csv is a zip archive, as files of Excel and Word are: unpack it first, or save"
                " it as CSV"
            ),
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "a.xls",
            "a file of Microsoft Office, such as Excel's .xls: save it as CSV",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a.csv",
            "a Git LFS pointer .*: run git lfs pull",
        ),
        (
            "a\r\nb".encode("utf-16"),
            "a.txt",
            "is text in UTF-16: save it as UTF-8, or convert it with iconv",
        ),
        ("a\r\nb".encode("utf-32"), "a.txt", "is text in UTF-32"),
        ("ab".encode("utf-16-le"), "a.txt", "has a zero byte at 1"),
        (b"BZh91AY&SY", "a.txt.bz2", "is packed by bzip2: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "a.zst", "is packed by Zstandard"),
        (b"PAR1\x15\x04", "a.parquet", "is a Parquet file"),
        (b"%PDF-1.4", "a.pdf", "is a PDF file"),
        (b"one\rtwo\r", "a.txt", "ends its lines by CR alone"),
        (b"one\rtwo\r\n", "a.txt", "line 1 has a CR inside"),
        (b"one\ntwo\rthree\n", "a.fasta", "line 2 has a CR inside"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_holds_no_text_is_called_what_it_is(tmp_path, content, name, said, pack):
    (tmp_path / name).write_bytes(pack(content))
    with pytest.raises(InputError, match=said):
        list(numbered_lines(tmp_path / name))


@pytest.mark.parametrize(
    "text", ["PAR1 binds to thrombin.", "BZhang came.", "PK is a name.", "version 2", "%PDF"]
)
def test_texts_that_begin_much_like_another_format_are_texts(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    assert list(numbered_lines(tmp_path / "a.txt")) == [(1, text)]


def test_a_cr_is_taken_at_the_end_of_a_line_and_in_a_cell(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\r\ntwo \r\n")
    assert [line.strip() for _, line in numbered_lines(tmp_path / "a.txt")] == ["one", "two"]
    (tmp_path / "a.csv").write_bytes(b'text,note\nthe cat,"one\rtwo"\n')
    assert [record["note"] for _, record in records(tmp_path / "a.csv")] == ["one\rtwo"]


def test_texts_keep_the_numbers_of_their_lines_and_rows(tmp_path):
    cases = {
        "a.txt": "one\n\n  \ntwo\n",
        "a.jsonl": '{"text": "one"}\n\n{"text": " "}\n{"sentence": "two"}',
        "a.csv": "text,n\none,1\n,\n,3\n\ntwo,4\n",  # a line without cells is no row, as in pandas
        "a.tsv": "text\tn\r\none\t1\r\n\t\r\n \t3\r\ntwo\t4\r\n",
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content.encode())
        assert list(lines.located_texts(tmp_path / name)) == [
            (1, "one"),
            (2, ""),
            (3, ""),
            (4, "two"),
        ], name
    (tmp_path / "a.fa").write_text(">x\nAC\nDE\n\n>y\nFG\n")
    assert list(lines.located_texts(tmp_path / "a.fa")) == [(1, "ACDE"), (2, "FG")]
