"""The lines and records of a user's file: plain, gzip or xz, or standard input (`-`); errors
name the file and the line.

A file is unpacked by its content, whatever its name (`unpacking`). What is in it is decided by its
name without .gz and .xz (`file_names`). A record is a JSON object of a line, a row of a table below
its header, or a row of a pandas frame. Case of column names does not matter, unless two names
differ in it alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.files import parse_json
from unmask.runs.file_names import FASTA, RECORDS, kind_of
from unmask.runs.unpacking import raw_lines, source_name

TEXT = ("text", "sentence")
"""Columns that hold a text."""
EMPTY = "the text is empty"
"""The reason of an empty line or row, which is not a failure."""


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line without its end) of a UTF-8 file; a byte-order mark is dropped."""
    name = source_name(path)
    is_of_records = kind_of(path) in RECORDS  # a cell in quotes may hold a CR
    offset = 0  # bytes before the line
    for number, raw in enumerate(raw_lines(path), 1):
        encoding = "utf-8-sig" if number == 1 else "utf-8"
        try:
            line = raw.decode(encoding)
        except UnicodeDecodeError as error:
            place = f"{name} line {number}: byte {offset + error.start}"
            raise InputError(f"{place} is not UTF-8: convert it, for example with iconv") from None
        offset += len(raw)
        has_end = line.endswith("\n")
        line = line.removesuffix("\n").removesuffix("\r")
        if number == 1 and not has_end and "\r" in line:
            raise InputError(
                f"{name} ends its lines by CR alone, as old programs for Macintosh do: save it"
                " with line ends of Unix or Windows"
            )
        if not is_of_records and "\r" in line.strip():
            raise InputError(
                f"{name} line {number} has a CR inside, which ends lines in old programs: save it"
                " with line ends of Unix or Windows alone"
            )
        yield number, line


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with a text in each; records, whose marks would be read as words, are
    refused by the file's name.
    """
    held = RECORDS.get(kind_of(path))
    if held is not None:
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
    kind = kind_of(path)
    if kind in FASTA:
        for number, (_, sequence) in enumerate(fasta_records(path), 1):
            yield number, sequence
    elif kind in RECORDS:
        for number, (where, record) in enumerate(records(path), 1):
            text = ""
            if record:
                text = string(record, column(record, *TEXT), where)
            yield number, text.strip()
    else:
        for number, line in text_lines(path):
            yield number, line.strip()


def place_name(path: Path, number: int) -> str:
    """The place of a text of `located_texts` as messages name it."""
    kind = kind_of(path)
    if kind in FASTA:
        unit = "record"
    elif RECORDS.get(kind) == "a table":
        unit = "row"
    else:
        unit = "line"
    return f"{source_name(path)} {unit} {number}"


def plain_texts(path: Path) -> Iterator[str]:
    """The texts of `located_texts` that are not empty."""
    yield from (text for _, text in located_texts(path) if text)


def fasta_records(path: Path) -> Iterator[tuple[str, str]]:
    """(the first word after >, the sequence) of each record."""
    name = ""
    sequence = ""
    end = (0, ">")  # as if one more record began, so that the last one is given
    for number, line_with_spaces in chain(text_lines(path), [end]):
        line = line_with_spaces.strip()  # a header with spaces before it is no sequence
        if not line.startswith(">"):
            sequence += line
            continue
        if sequence:
            yield name, sequence
        elif name:
            raise InputError(
                f"{source_name(path)}: record {name!r} has no sequence: add it, or remove the"
                " record"
            )
        words = line[1:].split()
        if words:
            name = words[0]
        else:  # a record without a name is named for its line; the end has none
            name = f"line {number}" if number else ""
        sequence = ""


def records(path: Path, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place as messages name it, record) of JSON Lines, .csv or .tsv.

    A blank line of JSON Lines, and a row of a table whose cells are all empty, is an empty
    record. A blank line of a table is no row, as in pandas.

    kind   in the place of the ending of the file's name
    """
    if kind is None:
        kind = kind_of(path)
    if RECORDS.get(kind) == "a table":
        yield from _rows_of_table(path, kind)
        return
    for number, line in numbered_lines(path):
        where = f"{source_name(path)} line {number}"
        record = _json_object(line, where) if line.strip() else {}
        yield where, record


def _rows_of_table(path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row by column) of a file of `kind` .csv or .tsv; the first line with a cell that is
    not empty is the header.
    """
    name = source_name(path)
    lines = (f"{line}\n" for _, line in numbered_lines(path))
    first = next(lines, "")
    between = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
    rows = csv.reader(chain([first], lines), delimiter=between, strict=True)
    columns: list[str] = []
    has_rows = False
    try:
        for row in rows:
            is_empty = not any(cell.strip() for cell in row)
            if is_empty and (len(row) < 2 or not columns):
                continue  # a blank line, or one of separators alone above the header
            if not columns:
                columns = [cell.strip() for cell in row]
                refuse_column_twice(columns, name)
                continue
            has_rows = True
            where = f"{name} line {rows.line_num}"
            if is_empty:
                yield where, {}
                continue
            if len(row) != len(columns):
                cells = f"{len(row)} cells and the header {len(columns)}"
                raise InputError(f"{where} has {cells}: put a text with a separator in quotes")
            yield where, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        where = f"{name} line {rows.line_num}"
        use = "double the quotes inside a text in quotes, close every quote, or use .jsonl"
        if "limit" in str(error):
            most = csv.field_size_limit()
            raise InputError(
                f"{where} has a cell of over {most:,} characters: shorten it, or {use}"
            ) from None
        raise InputError(f"{where} is not {kind[1:]}: {use} ({error})") from None
    if columns and not has_rows:
        raise InputError(
            f"{name} has one line, {', '.join(columns)[:80]!r}, read as its header: give a header"
            " and rows"
        )


def _json_object(line: str, where: str) -> dict[str, Any]:
    """The object of a line."""
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
