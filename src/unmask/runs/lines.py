"""The lines and records of a user's file: plain, .gz or .xz, or standard input (`-`); errors name the file and the line.

A record is a JSON object of a line, a row of a table below its header, or a row of a pandas frame. Case of column names does not
matter, unless two names differ in it alone.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, Any

from unmask.checks import shown
from unmask.errors import InputError, UnmaskWarning
from unmask.runs.files import parse_json, reading

FASTA = (".fasta", ".fa", ".faa")
PACKED = (".gz", ".xz")
RECORDS = {".jsonl": "JSON", ".ndjson": "JSON", ".json": "JSON", ".csv": "a table", ".tsv": "a table"}
TEXT = ("text", "sentence")
"""Columns that hold a text."""
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
            where = f"{source_name(path)} line {number}: byte {offset + error.start}"
            raise InputError(f"{where} is not UTF-8: convert it, for example with iconv") from None
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
    warn_of_missing_file(text)


def warn_of_missing_file(text: str) -> None:
    """Warn of a text that is written like the name of a file of texts, and may be a mistyped one."""
    if len(text.split()) == 1 and kind_of(Path(text)) in (".txt", *FASTA, *RECORDS):
        warnings.warn(f"there is no file {text!r}: it is read as a text", UnmaskWarning, stacklevel=4)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with a text in each; records, whose marks would be read as words, are refused by the file's name."""
    if held := RECORDS.get(kind_of(path)):
        raise InputError(f"{source_name(path)} holds {held} by its name: give a file with one text per line, such as a .txt")
    return numbered_lines(path)


def plain_texts(path: Path) -> Iterator[str]:
    """The texts of a file: the sequences of FASTA, the column text of a table or of JSON Lines, or lines that are not blank."""
    if kind_of(path) in FASTA:
        yield from (sequence for _, sequence in fasta_records(path))
    elif kind_of(path) in RECORDS:
        for where, record in records(path):
            if record and (text := string(record, column(record, *TEXT), where).strip()):
                yield text
    else:
        yield from (line.strip() for _, line in text_lines(path) if line.strip())


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
            raise InputError(f"{source_name(path)}: record {name!r} has no sequence: add it, or remove the record")
        name, sequence = (line[1:].split() or [f"line {number}" if number else ""])[0], ""


def records(path: Path, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place as messages name it, record) of JSON Lines, .csv or .tsv; a blank line of JSON Lines is an empty record."""
    kind, name = kind or kind_of(path), source_name(path)
    if RECORDS.get(kind) != "a table":
        for number, line in numbered_lines(path):
            yield f"{name} line {number}", _json_object(line, f"{name} line {number}") if line.strip() else {}
        return
    lines = (f"{line}\n" for _, line in numbered_lines(path))
    first = next(lines, "")
    between = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
    rows = csv.reader(chain([first], lines), delimiter=between, strict=True)
    filled, empty = (row for row in rows if any(cell.strip() for cell in row)), True
    try:
        columns = [column.strip() for column in next(filled, [])]
        refuse_column_twice(columns, name)
        for row in filled:
            where, empty = f"{name} line {rows.line_num}", False
            if len(row) != len(columns):
                cells = f"{len(row)} cells and the header {len(columns)}"
                raise InputError(f"{where} has {cells}: put a text with a separator in quotes")
            yield where, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        where, use = f"{name} line {rows.line_num}", "double the quotes inside a text in quotes, close every quote, or use .jsonl"
        if "limit" in str(error):
            raise InputError(f"{where} has a cell of over {csv.field_size_limit():,} characters: shorten it, or {use}") from None
        raise InputError(f"{where} is not {kind[1:]}: {use} ({error})") from None
    if columns and empty:
        raise InputError(f"{name} has one line, {', '.join(columns)[:80]!r}, read as its header: give a header and rows")


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
    """The first of these columns that a record has; case does not matter where none is written exactly so.

    Raises if two columns differ from it in case alone.
    """
    for name in names:
        if name in record:
            return name
    for name in names:
        alike = [key for key in record if str(key).casefold() == name.casefold()]
        if len(alike) > 1:
            raise InputError(f"columns {alike[0]!r} and {alike[1]!r} can both be {name!r}: rename one")
        if alike:
            return alike[0]
    return None


def string(record: Mapping[str, Any], key: str | None, where: str, wanted: str = TEXT[0]) -> str:
    """The text in a column, which is None where the record has no column `wanted`."""
    if key is None:
        fields = ", ".join(map(str, list(record)[:6])) or "none"
        use = f"rename one to {wanted}" if wanted in TEXT else "name one of them with field (--field)"
        raise InputError(f"{where} has no field {wanted!r} (its fields are {fields}): {use}")
    if not isinstance(record[key], str):
        raise InputError(f"{where}: {key!r} is {shown(record[key])}, not text: give a string")
    return str(record[key])


def _raw_lines(path: Path) -> Iterator[bytes]:
    with reading(Path(source_name(path))), _open(path) as stream:
        yield from (line.removesuffix(b"\n") for line in stream)


def _open(path: Path) -> AbstractContextManager[IO[bytes]]:
    if path != STANDARD_INPUT:
        packed: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}
        return packed.get(path.suffix.lower(), open)(path, "rb")
    if sys.stdin is None:
        raise InputError("standard input is closed: give a file")
    return nullcontext(sys.stdin.buffer)
