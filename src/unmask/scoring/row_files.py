"""Rows of scores as files: JSON Lines, CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.common.errors import InputError, argument_name
from unmask.common.files import as_json, atomic_path

if TYPE_CHECKING:
    import pyarrow


def write_rows(path: Path, tables: Iterable[pyarrow.Table], columns: pyarrow.Schema) -> None:
    """Write tables one after the other as one file, whose name ends with its format; at most one
    of them is in memory.
    """
    format = path.suffix.removeprefix(".")
    with atomic_path(path) as temporary:
        if format == "parquet":
            from unmask.common.lazy import parquet

            with parquet.ParquetWriter(temporary, columns, write_page_checksum=True) as writer:
                for table in tables:
                    writer.write_table(table.select(columns.names))
            return
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            write = LineWriter(file, format)
            for table in tables:
                for row in table.to_pylist():
                    write(row)


class LineWriter:
    """Writes rows as lines of JSON, or of CSV under a heading from the first row, to a stream."""

    def __init__(self, stream: Any, format: str) -> None:
        self._stream = stream
        self._format = format
        self._csv: csv.DictWriter[str] | None = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Write one more row."""
        if self._format != "csv":
            self._stream.write(as_json(row, indent=None) + "\n")
            return
        if self._csv is None:
            self._csv = csv.DictWriter(self._stream, list(row), lineterminator="\n")
            self._csv.writeheader()
        self._csv.writerow(row)


def check_format(format: str, rows: str, on_stream: bool) -> None:
    """Refuse rows that a format cannot hold."""
    if format == "csv" and rows == "nested":
        raise InputError(
            "csv cannot hold nested rows",
            argument="format",
            use=f"give {argument_name('rows')} words or tokens, or jsonl or parquet",
        )
    if format == "parquet" and on_stream:
        raise InputError(
            "parquet cannot be printed",
            argument="format",
            use=f"give {argument_name('out')} for a folder, or print jsonl or csv",
        )
