"""The lines and records of a user's file: plain, gzip or xz, or standard input (`-`); errors
name the file and the line.

A file is unpacked by its content, whatever its name. What is in it is decided by its name
without .gz and .xz. A record is a JSON object of a line, a row of a table below its header, or
a row of a pandas frame. Case of column names does not matter, unless two names differ in it
alone.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.files import parse_json, reading

FASTA = (".fasta", ".fa", ".faa")
PACKED = (".gz", ".xz")
RECORDS = {
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".json": "JSON",
    ".csv": "a table",
    ".tsv": "a table",
}
DOCUMENTS = (
    ".txt",
    ".text",
    ".conllu",
    ".md",
    ".tex",
    ".html",
    ".xml",
    ".pdf",
    ".doc",
    ".docx",
    ".odt",
    ".rtf",
    ".log",
)
TABLES = (".tab", ".dat", ".xls", ".xlsx", ".xlsm", ".ods", ".parquet")
ENDINGS = (*DOCUMENTS, *TABLES, ".bz2", ".zst", ".zip", *FASTA, *PACKED, *RECORDS)
"""A text that ends so looks like the name of a file."""
BLANK = re.compile(r"\[MASK\]|\[WORD\]|\[GAP[:\]]")
"""A text with a blank does not look like the name of a file."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]\S+")
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
HEAD = 512
"""Bytes at the beginning of a file by which its kind is known."""
AS_CSV = "save it as CSV in UTF-8, and give that file"
UNPACK = "unpack it first"
AS_UTF8 = "save it as UTF-8, or convert it with iconv"
FOREIGN = {
    b"version https://git-lfs.github.com/spec/": (
        "a Git LFS pointer and not the file itself",
        "run git lfs pull",
    ),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "a file of Microsoft Office, such as Excel's .xls",
        AS_CSV,
    ),
    b"\xff\xfe\x00\x00": ("text in UTF-32", AS_UTF8),
    b"\x00\x00\xfe\xff": ("text in UTF-32", AS_UTF8),
    b"\xff\xfe": ("text in UTF-16", AS_UTF8),
    b"\xfe\xff": ("text in UTF-16", AS_UTF8),
    **{b"BZh%d1AY&SY" % level: ("packed by bzip2", UNPACK) for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": ("packed by Zstandard", UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("packed by 7-Zip", UNPACK),
    b"PAR1\x15": ("a Parquet file", "read it with pandas, and give the frame, or a CSV file"),
    b"%PDF-": ("a PDF file", "save its text as UTF-8, one text per line"),
}
"""How files that hold no text begin, what they are, and what to do."""
OFFICE = {
    ".xlsx": ("an Excel file", AS_CSV),
    ".xlsm": ("an Excel file", AS_CSV),
    ".ods": ("a LibreOffice spreadsheet", AS_CSV),
    ".docx": ("a Word file", "save it as plain text in UTF-8"),
    ".odt": ("a LibreOffice text", "save it as plain text in UTF-8"),
}
"""Files that are zip archives inside, by their name."""
TEXT = ("text", "sentence")
"""Columns that hold a text."""
EMPTY = "the text is empty"
"""The reason of an empty line or row, which is not a failure."""
STANDARD_INPUT = Path("-")
"""In the place of a file of texts; it can be read once."""


def source_name(path: Path) -> str:
    """A file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line without its end) of a UTF-8 file; a byte-order mark is dropped."""
    offset, is_of_records = 0, kind_of(path) in RECORDS  # a cell in quotes may hold a CR
    for number, raw in enumerate(_raw_lines(path), 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = f"{source_name(path)} line {number}: byte {offset + error.start}"
            raise InputError(f"{where} is not UTF-8: convert it, for example with iconv") from None
        offset += len(raw)
        ended = line.endswith("\n")
        line = line.removesuffix("\n").removesuffix("\r")
        if number == 1 and not ended and "\r" in line:
            kind = "ends its lines by CR alone, as old programs for Macintosh do"
            raise InputError(
                f"{source_name(path)} {kind}: save it with line ends of Unix or Windows"
            )
        if "\r" in line and not is_of_records and "\r" in line.strip():
            problem = (
                f"{source_name(path)} line {number} has a CR inside, which ends lines in old"
                " programs"
            )
            raise InputError(f"{problem}: save it with line ends of Unix or Windows alone")
        yield number, line


def kind_of(path: Path) -> str:
    """How a file's name ends, .gz and .xz aside; in small letters."""
    path = Path(path.name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def refuse_file_name(text: str, file: str, as_text: str) -> None:
    """Raise if a text is the name of a file, or looks like one.

    file      how the file of this name is given instead
    as_text   how the text is given if it is meant as a text
    """
    if (is_named := file_name(text)) is not None:
        ways = f"give {file} to read the file, or {as_text} if it is a text"
        raise InputError(f"the text {shown(text)} {is_named}: {ways}")


IS_NAMED, LOOKS_SO = "is the name of a file", "looks like the name of a file"


def file_name(text: str) -> str | None:
    """In words, in which way a text is the name of a file, or looks like one; None if it does
    neither.
    """
    if os.path.exists(os.path.expanduser(text)) and text.strip("."):
        return IS_NAMED
    return LOOKS_SO if looks_like_a_file(text) else None


def looks_like_a_file(text: str) -> bool:
    """Whether a text has a known ending, or a slash and no space; one with a blank is a text."""
    if BLANK.search(text):
        return False
    if text.rstrip().lower().endswith(ENDINGS):
        return True
    slashes = "/\\" if os.name == "nt" else "/"
    has_slash = any(slash in text for slash in slashes) or WINDOWS_PATH.fullmatch(text) is not None
    return has_slash and not any(character.isspace() for character in text.strip())


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with a text in each; records, whose marks would be read as words, are
    refused by the file's name.
    """
    if held := RECORDS.get(kind_of(path)):
        raise InputError(
            f"{source_name(path)} holds {held} by its name: give a file with one text per line,"
            " such as a .txt"
        )
    return numbered_lines(path)


def located_texts(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of a file: its lines, the rows of a table, the records of FASTA.

    An empty line, or row, has the text "". The text of JSON Lines and of tables is in the
    column text.
    """
    if kind_of(path) in FASTA:
        yield from enumerate((sequence for _, sequence in fasta_records(path)), 1)
    elif kind_of(path) in RECORDS:
        for number, (where, record) in enumerate(records(path), 1):
            text = string(record, column(record, *TEXT), where) if record else ""
            yield number, text.strip()
    else:
        yield from ((number, line.strip()) for number, line in text_lines(path))


def place_name(path: Path, number: int) -> str:
    """The place of a text of `located_texts` as messages name it."""
    kind = kind_of(path)
    unit = "record" if kind in FASTA else "row" if RECORDS.get(kind) == "a table" else "line"
    return f"{source_name(path)} {unit} {number}"


def plain_texts(path: Path) -> Iterator[str]:
    """The texts of `located_texts` that are not empty."""
    yield from (text for _, text in located_texts(path) if text)


def fasta_records(path: Path) -> Iterator[tuple[str, str]]:
    """(the first word after >, the sequence) of each record."""
    name, sequence = "", ""
    for number, line in chain(text_lines(path), [(0, ">")]):
        if not line.startswith(">"):
            sequence += line.strip()
            continue
        if sequence:
            yield name, sequence
        elif name:
            raise InputError(
                f"{source_name(path)}: record {name!r} has no sequence: add it, or remove the"
                " record"
            )
        name, sequence = (line[1:].split() or [f"line {number}" if number else ""])[0], ""


def records(path: Path, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place as messages name it, record) of JSON Lines, .csv or .tsv.

    A blank line of JSON Lines, and a row of a table whose cells are all empty, is an empty
    record. A blank line of a table is no row, as in pandas.
    """
    kind, name = kind or kind_of(path), source_name(path)
    if RECORDS.get(kind) != "a table":
        for number, line in numbered_lines(path):
            yield (
                f"{name} line {number}",
                _json_object(line, f"{name} line {number}") if line.strip() else {},
            )
        return
    lines = (f"{line}\n" for _, line in numbered_lines(path))
    first = next(lines, "")
    between = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
    rows = csv.reader(chain([first], lines), delimiter=between, strict=True)
    filled, empty = (row for row in rows if len(row) > 1 or any(cell.strip() for cell in row)), True
    try:
        header: list[str] = next((row for row in filled if any(cell.strip() for cell in row)), [])
        columns = [column.strip() for column in header]
        refuse_column_twice(columns, name)
        for row in filled:
            where, empty = f"{name} line {rows.line_num}", False
            if not any(cell.strip() for cell in row):
                yield where, {}
                continue
            if len(row) != len(columns):
                cells = f"{len(row)} cells and the header {len(columns)}"
                raise InputError(f"{where} has {cells}: put a text with a separator in quotes")
            yield where, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        where, use = (
            f"{name} line {rows.line_num}",
            "double the quotes inside a text in quotes, close every quote, or use .jsonl",
        )
        if "limit" in str(error):
            raise InputError(
                f"{where} has a cell of over {csv.field_size_limit():,} characters: shorten it, or"
                f" {use}"
            ) from None
        raise InputError(f"{where} is not {kind[1:]}: {use} ({error})") from None
    if columns and empty:
        raise InputError(
            f"{name} has one line, {', '.join(columns)[:80]!r}, read as its header: give a header"
            " and rows"
        )


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is {error}: give one JSON object per line") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is a JSON {type(value).__name__}: give one JSON object per line")
    return value


def rows_of_frame(source: Any, name: str) -> Any:
    """The rows of a pandas frame as mappings; anything else as it is."""
    if type(source).__name__ != "DataFrame":
        return source
    for one in source.columns:
        if not isinstance(one, str):
            kind = f"column {shown(one)} of the frame of {name} is a {type(one).__name__}"
            raise InputError(f"{kind}: name columns by one text each")
    refuse_column_twice(source.columns, f"the frame of {name}")
    return source.to_dict("records")


def refuse_column_twice(names: Iterable[str], source: str) -> None:
    """Each column has its own name."""
    listed = list(names)
    for name in listed:
        if listed.count(name) > 1:
            raise InputError(f"{source} names column {name!r} twice: rename one")


def column(record: Mapping[str, Any], *names: str) -> str | None:
    """The first of these columns that a record has; case does not matter where none is written
    exactly so.

    Raises if two columns differ from it in case alone.
    """
    for name in names:
        if name in record:
            return name
    for name in names:
        alike = [key for key in record if str(key).casefold() == name.casefold()]
        if len(alike) > 1:
            raise InputError(
                f"columns {alike[0]!r} and {alike[1]!r} can both be {name!r}: rename one"
            )
        if alike:
            return alike[0]
    return None


def string(record: Mapping[str, Any], key: str | None, where: str, wanted: str = TEXT[0]) -> str:
    """The text in a column, which is None where the record has no column `wanted`."""
    if key is None:
        fields = ", ".join(map(str, list(record)[:6])) or "none"
        use = f"rename one to {wanted}"
        if wanted not in TEXT:
            use = f"name one of them with {argument_name('field')}"
        raise InputError(f"{where} has no field {wanted!r} (its fields are {fields}): {use}")
    if not isinstance(record[key], str):
        raise InputError(f"{where}: {key!r} is {shown(record[key])}, not text: give a string")
    return str(record[key])


def _raw_lines(path: Path) -> Iterator[bytes]:
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
    yield _unpacked(given if hasattr(given, "peek") else io.BufferedReader(given), path)


def _unpacked(stream: io.BufferedReader, path: Path) -> IO[bytes]:
    """The stream, or what gzip or xz packed in it."""
    head = stream.peek(HEAD)
    packed_by_name = path.suffix.lower() in PACKED
    cut = packed_by_name and head and any(magic.startswith(head) for magic in (GZIP, XZ))
    if head.startswith(GZIP) or (cut and GZIP.startswith(head)):
        inside: Any = gzip.GzipFile(fileobj=stream)
    elif head.startswith(XZ) or cut:
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
    if head.startswith(b"PK\x03\x04"):
        what, use = OFFICE.get(
            path.suffix.lower(),
            ("a zip archive, as files of Excel and Word are", f"{UNPACK}, or {AS_CSV}"),
        )
        raise InputError(f"{name} is {what}: {use}")
    if b"\0" in head:
        raise InputError(
            f"{name} has a zero byte at {head.index(0)}: it is not text in UTF-8, give a file"
            " that is"
        )
