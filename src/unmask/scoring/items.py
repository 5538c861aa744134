"""The texts that a user gives to `score`: read from lines, FASTA, records or mappings.

Lines hold one text each, FASTA sequences with their names as ids. Records, which are JSON
objects, rows of a table (.csv, .tsv) or of a frame, hold a text, or a target between words; case
of their names does not matter:

    {"text": "..."}                                      or "sentence"; optional "id"
    {"before": "...", "target": "...", "after": "..."}   the target is scored, the words around
                                                         it are context

All other columns come back with the scores, under their names. The parts of a target's text are
joined by one space, except where a part brings its own space or the next begins with a mark
that follows a word directly.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path
from unmask.runs.file_names import FASTA, RECORDS, kind_of, refuse_file_name
from unmask.runs.lines import (
    TEXT,
    column,
    fasta_records,
    numbered_lines,
    records,
    refuse_column_twice,
    rows_of_frame,
    string,
)
from unmask.runs.unpacking import STANDARD_INPUT, source_name

OWN = "unmask_"
"""Before the name of a column of ours where the user has a column of that name."""
JOINED_TO_THE_LEFT = tuple(".,;:!?)]}%'’”")
FIELDS_SHOWN = 6
"""Fields of a record that a message lists."""
Texts = str | Path | Iterable[str | Mapping[str, Any]]
"""One text, a file, standard input (`Path("-")`), or texts and mappings."""


class Item(NamedTuple):
    """One text to score.

    target    the part of it that is scored, in characters; None for all of it
    columns   the other columns of its record, which come back with its scores
    """

    text: str
    target: tuple[int, int] | None = None
    id: str | None = None
    columns: Mapping[str, Any] | None = None


def items_again(
    texts: Texts | Iterable[Item], field: str | None = None, keep: bool = False
) -> Iterable[Item]:
    """Returns re-iterable items, or a one-shot iterator if `texts` is one and `keep` is false."""
    if isinstance(texts, Path) and not _is_read_once(texts):
        return FileItems(texts, field)
    texts = rows_of_frame(texts, "texts")
    items = items_of(texts, field)
    if keep or isinstance(texts, str | Sequence):
        return list(items)
    return items


def _is_read_once(path: Path) -> bool:
    """Whether a path is standard input, or a pipe such as <(zcat texts.gz)."""
    return path == STANDARD_INPUT or path.is_fifo()


@dataclass(frozen=True)
class FileItems:
    """The items of a file, read again each time."""

    path: Path
    field: str | None = None

    def __iter__(self) -> Iterator[Item]:
        return items_of(self.path, self.field)


def items_of(source: Texts | Iterable[Item], field: str | None = None) -> Iterator[Item]:
    """Items of a file (a `Path`), of standard input (`Path("-")`), of one text (a string), or
    of texts and mappings.

    `field` is the column, or key, that holds the text; with it, standard input has JSON lines.
    """
    if isinstance(source, Path):
        yield from _items_of_file(source, field)
        return
    if isinstance(source, str):
        refuse_file_name(source, f"Path({shown(source)})", f"[{shown(source)}]")
        source = [source]
    elif not isinstance(source, Iterable) or isinstance(source, Mapping):
        raise InputError(
            f"{shown(source)} is not a text or a list of texts", argument="texts", use="give one"
        )
    for number, text in enumerate(source, 1):
        yield _item_of_value(text, number, field)


def _items_of_file(source: Path, field: str | None) -> Iterator[Item]:
    """Items of a file or of standard input."""
    path = user_path(source, "texts")
    kind = kind_of(source)
    if source == STANDARD_INPUT and field is not None:
        kind = ".jsonl"
    if kind in RECORDS:
        for where, record in records(path, kind):
            if record:
                yield _item_of_record(record, where, field)
            else:  # an empty line is a text without a score, so that texts keep their numbers
                yield Item("")
        return
    if field is not None:
        lines = "one text per line"
        if kind in FASTA:
            lines = "FASTA"
        raise InputError(
            f"names a column, and {source_name(source)} has none ({lines})",
            argument="field",
            use="leave it out, or name the file .jsonl or .csv",
        )
    if kind in FASTA:
        for name, sequence in fasta_records(path):
            yield Item(sequence, None, name or None)
    else:
        for _number, line in numbered_lines(path):
            yield Item(line)


def _item_of_value(text: object, number: int, field: str | None) -> Item:
    """The item of one of several values: a text, a mapping, or an item itself."""
    if isinstance(text, Mapping):
        return _item_of_record(text, f"text {number}", field)
    if not isinstance(text, str | Item):
        raise InputError(
            f"text {number} is a {type(text).__name__}: give a string, or a mapping with the key"
            " text"
        )
    if field is not None:
        raise InputError(
            f"names a column, and text {number} is a text without columns",
            argument="field",
            use="leave it out",
        )
    if isinstance(text, str):
        return Item(text)
    return text


def _item_of_record(record: Mapping[str, Any], where: str, field: str | None = None) -> Item:
    """The item of a record, with a text or with a target between words."""
    id_column = column(record, "id")
    target_column = None
    if field is None:  # a field that is named holds the whole text
        target_column = column(record, "target")
    name = None
    if id_column is not None and record[id_column] is not None:
        name = str(record[id_column])
    if target_column is None:
        text_column = _text_column(record, where, field)
        text = string(record, text_column, where, field or TEXT[0])
        return Item(text, None, name, other_columns(record, id_column, text_column))
    around = (column(record, "before"), target_column, column(record, "after"))
    before, target, after = (_part(record, part, where) for part in around)
    if not target.strip():
        raise InputError(f"{where}: {target_column!r} is empty: give the words that are scored")
    left = before + _space(before, target)
    text = left + target + _space(target, after) + after
    place = (len(left), len(left) + len(target))
    return Item(text, place, name, other_columns(record, id_column, *around))


def _text_column(record: Mapping[str, Any], where: str, field: str | None) -> str | None:
    """The column that holds the text; None if the record has no column `field`."""
    if field is not None:
        return column(record, field)
    found = column(record, *TEXT)
    if found is None:
        raise InputError(
            f"{where} has no field 'text' (its fields are {fields_shown(record)}): give text, or"
            f" before, target and after; {argument_name('field')} names another, and"
            " unmask minimal-pairs reads columns good and bad"
        )
    return found


def fields_shown(record: Mapping[str, Any]) -> str:
    """The names of a record's first fields, for a message."""
    return ", ".join(map(str, list(record)[:FIELDS_SHOWN])) or "none"


def _part(record: Mapping[str, Any], part_column: str | None, where: str) -> str:
    """A part of a target's text, which is empty where the record has no column for it."""
    if part_column is None:
        return ""
    return string(record, part_column, where)


def other_columns(record: Mapping[str, Any], *used: str | None) -> dict[str, Any] | None:
    """The columns of a record that hold no text or name; None if there are none."""
    if not all(isinstance(name, str) for name in record):
        refuse_column_twice(map(str, record), "a mapping")  # 1 and "1" would be one column
    return {str(name): value for name, value in record.items() if name not in used} or None


def own_name(column: str, taken: Container[str]) -> str:
    """The name of a column of ours among the user's columns `taken`, which keep theirs."""
    while column in taken:
        column = f"{OWN}{column}"
    return column


def _space(left: str, right: str) -> str:
    """The space between two parts of a text, or nothing."""
    if not left or not right:
        return ""
    if left[-1].isspace() or right[0].isspace():
        return ""
    if right[0] in JOINED_TO_THE_LEFT:
        return ""
    return " "
