"""The bytes of a user's file, or of standard input: unpacked by their content, and refused where
they begin as a known format does that holds no text.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unmask.common.errors import InputError
from unmask.common.files import reading

PACKED = (".gz", ".xz")
"""Endings of the names of packed files."""
GZIP = b"\x1f\x8b"
"""How a file begins that gzip packed."""
XZ = b"\xfd7zXZ\x00"
"""How a file begins that xz packed."""
HEAD = 512
"""Bytes at the beginning of a file by which its kind is known."""
AS_CSV = "save it as CSV in UTF-8, and give that file"
UNPACK = "unpack it first"
AS_UTF8 = "save it as UTF-8, or convert it with iconv"
OF_BZIP2 = {b"BZh%d1AY&SY" % level: ("packed by bzip2", UNPACK) for level in range(1, 10)}
LFS = b"version https://git-lfs.github.com/spec/"
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
FOREIGN = {
    LFS: ("a Git LFS pointer and not the file itself", "run git lfs pull"),
    OLD_OFFICE: ("a file of Microsoft Office, such as Excel's .xls", AS_CSV),
    b"\xff\xfe\x00\x00": ("text in UTF-32", AS_UTF8),
    b"\x00\x00\xfe\xff": ("text in UTF-32", AS_UTF8),
    b"\xff\xfe": ("text in UTF-16", AS_UTF8),  # after UTF-32, which begins with it
    b"\xfe\xff": ("text in UTF-16", AS_UTF8),
    **OF_BZIP2,
    b"\x28\xb5\x2f\xfd": ("packed by Zstandard", UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("packed by 7-Zip", UNPACK),
    b"PAR1\x15": ("a Parquet file", "read it with pandas, and give the frame, or a CSV file"),
    b"%PDF-": ("a PDF file", "save its text as UTF-8, one text per line"),
}
"""How files that hold no text begin, what they are, and what to do; the first that fits counts."""
ZIP = b"PK\x03\x04"
OFFICE = {
    ".xlsx": ("an Excel file", AS_CSV),
    ".xlsm": ("an Excel file", AS_CSV),
    ".ods": ("a LibreOffice spreadsheet", AS_CSV),
    ".docx": ("a Word file", "save it as plain text in UTF-8"),
    ".odt": ("a LibreOffice text", "save it as plain text in UTF-8"),
}
"""Files that are zip archives inside, by their name."""
OTHER_ZIP = ("a zip archive, as files of Excel and Word are", f"{UNPACK}, or {AS_CSV}")
STANDARD_INPUT = Path("-")
"""In the place of a file; it can be read once."""


def source_name(path: Path) -> str:
    """A file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked, with their ends."""
    with reading(Path(source_name(path))), _opened(path) as stream:
        yield from stream


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, or of standard input, unpacked; raises if it begins as no text does."""
    if path != STANDARD_INPUT:
        with open(path, "rb") as stream:
            yield _unpacked(stream, path)
        return
    if sys.stdin is None:
        raise InputError("standard input is closed: give a file")
    given: Any = sys.stdin.buffer
    if not hasattr(given, "peek"):  # a stream that a program has put there
        given = io.BufferedReader(given)
    yield _unpacked(given, path)


def _unpacked(stream: io.BufferedReader, path: Path) -> IO[bytes]:
    """The stream, or what gzip or xz packed in it."""
    head = stream.peek(HEAD)
    is_named_so = path.suffix.lower() in PACKED
    # a packed file that ends within its first bytes: unpacking it says what is wrong
    cut_gzip = is_named_so and head and GZIP.startswith(head)
    cut_xz = is_named_so and head and XZ.startswith(head)
    inside: Any
    if head.startswith(GZIP) or cut_gzip:
        import gzip  # here, so that help stays quick

        inside = gzip.GzipFile(fileobj=stream)
    elif head.startswith(XZ) or cut_xz:
        import lzma

        inside = lzma.LZMAFile(stream)  # noqa: SIM115 (the caller closes it)
    else:
        _refuse_foreign(head, path)
        return stream
    unpacked = io.BufferedReader(inside)
    _refuse_foreign(unpacked.peek(HEAD), path)
    return unpacked


def _refuse_foreign(head: bytes, path: Path) -> None:
    """Raise for a file that begins as a known format does that holds no text."""
    name = source_name(path)
    for beginning, (what, use) in FOREIGN.items():
        if head.startswith(beginning):
            raise InputError(f"{name} is {what}: {use}")
    if head.startswith(ZIP):
        what, use = OFFICE.get(path.suffix.lower(), OTHER_ZIP)
        raise InputError(f"{name} is {what}: {use}")
    if b"\0" in head:
        raise InputError(
            f"{name} has a zero byte at {head.index(0)}: it is not text in UTF-8, give a file"
            " that is"
        )
