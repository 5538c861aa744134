"""Rows to files: JSON Lines, CSV or Parquet, written row by row, with the same columns in all three."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.runs.files import atomic_path, plain
from unmask.scoring.registry import SCORES
from unmask.scoring.rows import FLAGS, columns_of, share_column

if TYPE_CHECKING:
    import pyarrow

WORD = {"word_number": "int64", "word": "string", "start": "int64", "end": "int64", "length": "int64"}
TOKEN = {
    "token_number": "int64",
    "token": "string",
    "start": "int64",
    "end": "int64",
    "word_number": "int64",
    "position": "int64",
}


def schema(names: Sequence[str], kind: str, tokens: bool) -> pyarrow.Schema:
    """The columns of rows per text, word or token (`kind`); with `tokens`, a text's row holds its words and tokens."""
    import pyarrow as pa

    shares = [pa.field(share_column(name), pa.float64()) for name in names if SCORES[name].by_token]
    word = [*_fields(WORD), *shares]
    token = [*_fields(TOKEN), *shares]
    start = _fields({"item": "int64", "id": "string"})
    reason = pa.field("reason", pa.string())
    if kind != "texts":
        return pa.schema([*start, *(word if kind == "words" else token), reason])
    scores = [pa.field(column, pa.bool_() if column in FLAGS else pa.float64()) for column in columns_of(names)]
    detail = [pa.field("words", pa.list_(pa.struct(word))), pa.field("tokens", pa.list_(pa.struct(token)))] if tokens else []
    return pa.schema([*start, *_fields({"text": "string", "length": "int64", "unknown": "int64"}), *scores, reason, *detail])


def as_line(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON."""
    return json.dumps(plain(row), ensure_ascii=False, allow_nan=False)


def write_rows(path: Path, tables: Iterable[pyarrow.Table], columns: pyarrow.Schema, format: str) -> None:
    """Tables one after the other as one file; at most one of them is in memory."""
    with atomic_path(path) as temporary:
        if format == "parquet":
            from pyarrow import parquet

            with parquet.ParquetWriter(temporary, columns, write_page_checksum=True) as writer:
                for table in tables:
                    writer.write_table(table.select(columns.names))
            return
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            write = LineWriter(file.write, columns.names, format)
            for table in tables:
                for row in table.to_pylist():
                    write(row)


class LineWriter:
    """Rows as lines of JSON, or of CSV under a heading."""

    def __init__(self, write: Any, names: Sequence[str], format: str) -> None:
        self._write, self._csv = write, None
        if format == "csv":
            self._csv = csv.DictWriter(_Sink(write), names, lineterminator="\n")
            self._csv.writeheader()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """One more row."""
        if self._csv is not None:
            self._csv.writerow(row)
        else:
            self._write(as_line(row) + "\n")


def check_format(format: str, tokens: bool, on_stream: bool) -> None:
    """Refuse what a format cannot hold."""
    if format == "csv" and tokens:
        raise InputError("tokens within rows do not fit into CSV: ask for rows words or tokens, or for jsonl or parquet")
    if format == "parquet" and on_stream:
        raise InputError("Parquet cannot be printed: give an --out folder, or print jsonl or csv")


class _Sink:
    """What `csv` writes to."""

    def __init__(self, write: Any) -> None:
        self.write = write


def _fields(types: Mapping[str, str]) -> list[Any]:
    import pyarrow as pa

    return [pa.field(name, pa.type_for_alias(alias)) for name, alias in types.items()]
