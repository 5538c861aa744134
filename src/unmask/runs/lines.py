"""The lines of a user's text file: plain, .gz or .xz, or standard input (`-`); errors name the file and the line."""

from __future__ import annotations

import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, Any

from unmask.errors import InputError
from unmask.runs.files import reading

FASTA = (".fasta", ".fa", ".faa")
PACKED = (".gz", ".xz")
RECORDS = {".jsonl": "JSON", ".json": "JSON", ".csv": "a table", ".tsv": "a table"}
STANDARD_INPUT = Path("-")
"""In the place of a file of texts; it can be read once."""


def source_name(path: Path) -> str:
    """A file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line without its end) of a UTF-8 file; a byte-order mark is dropped."""
    offset = 0
    for number, raw in enumerate(_raw_lines(path), 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source_name(path)} line {number}: byte {offset + error.start} is not UTF-8: convert it, for example with iconv"
            ) from None
        offset += len(raw) + 1
        yield number, line.removesuffix("\r")


def kind_of(path: Path) -> str:
    """How a file's name ends, .gz and .xz aside; in small letters."""
    path = Path(path.name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def refuse_file_name(text: str, instead: str) -> None:
    """Raise if a text is the name of a file that exists, with an ending."""
    if Path(text).suffix and os.path.isfile(os.path.expanduser(text)):
        raise InputError(f"the text {text!r} is the name of a file: {instead}")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with a text in each; records, whose marks would be read as words, are refused by the file's name."""
    if held := RECORDS.get(kind_of(path)):
        raise InputError(f"{source_name(path)} holds {held} by its name: give a file with one text per line, such as a .txt")
    return numbered_lines(path)


def plain_texts(path: Path) -> Iterator[str]:
    """The texts of a file: the sequences of a FASTA file, or the lines of any other that are not blank."""
    if kind_of(path) in FASTA:
        yield from (sequence for _, sequence in fasta_records(path))
    else:
        yield from (line.strip() for _, line in text_lines(path) if line.strip())


def fasta_records(path: Path) -> Iterator[tuple[str, str]]:
    """(the first word after >, the sequence) of each record that has a sequence."""
    name, sequence = "", ""
    for line in chain((line for _, line in text_lines(path)), [">"]):
        if not line.startswith(">"):
            sequence += line.strip()
            continue
        if sequence:
            yield name, sequence
        name, sequence = (line[1:].split() or [""])[0], ""


def _raw_lines(path: Path) -> Iterator[bytes]:
    number = 0
    with reading(path if path != STANDARD_INPUT else Path("standard input")):
        try:
            with _open(path) as stream:
                for number, line in enumerate(stream, 1):  # noqa: B007
                    yield line.removesuffix(b"\n")
        except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(
                f"{path} is damaged or not compressed as its name says ({error}; after line {number}): make it again"
            ) from None


def _open(path: Path) -> AbstractContextManager[IO[bytes]]:
    if path != STANDARD_INPUT:
        packed: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}
        return packed.get(path.suffix.lower(), open)(path, "rb")
    if sys.stdin is None:
        raise InputError("standard input is closed: give a file")
    return nullcontext(sys.stdin.buffer)
