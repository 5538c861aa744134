"""The rows of measured pairs: their columns, and how they reach the disk.

A part of the run folder holds whole batches, so that a run that is killed and continued measures
the same batches again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.common.files import write_table
from unmask.runs.folder import RunFolder, read_parts, read_rows

COLUMNS: dict[str, str] = {
    "pair": "int64",
    "text_index": "int64",
    "text": "string",
    "first": "int64",
    "second": "int64",
    "first_token": "string",
    "second_token": "string",
    "tokens": "int64",
    "token_distance": "int64",
    "syntactic_distance": "int64",
    "construction": "string",
    "unary_nll_first": "float64",
    "unary_nll_second": "float64",
    "pair_nll": "float64",
    "a_kl": "float64",
    "g_kl": "float64",
    "incompatibility": "float64",
    "objective": "float64",
    "steps": "int64",
    "converged": "bool",
    "seconds": "float64",
}
"""Column: Arrow type. NLL and KL are in nats at the gold tokens; `seconds` is the time of the
whole pair, or its share of that of the pairs that were measured with it."""

MOST_ROWS_PER_PART = 4096
LONGEST_WAIT = 2.0
"""Seconds after which rows are written."""
WAIT_PER_PART = 0.01
"""Seconds of waiting for each part there is: the first parts come at once, so that a short run
loses nothing when it is killed.
"""

Row = dict[str, Any]
"""The numbers of one construction on one pair, by the names of `COLUMNS`."""


class StoredRows:
    """The rows of whole pairs: those of earlier runs, and those that come now; on the disk
    where there is a folder.

    done      the numbers of the pairs that have rows, written or waiting
    tables    the rows that are written, or would be if there were a folder
    waiting   the rows that come with the next part
    """

    def __init__(self, folder: RunFolder | None) -> None:
        from unmask.common.lazy import pyarrow

        self.folder = folder
        self.columns: Any = pyarrow.schema([*COLUMNS.items()])
        self.tables: list[Any] = [self.columns.empty_table()]
        if folder is not None:
            self.tables += [read_rows([part], self.columns) for part in read_parts(folder.path)]
        self.done: set[Any] = {pair for table in self.tables for pair in table["pair"].to_pylist()}
        self.waiting: list[Row] = []
        self.last_written: float = time.monotonic()

    def add(self, rows: Sequence[Row]) -> None:
        """The rows of pairs that were measured together."""
        self.waiting += rows
        self.done |= {row["pair"] for row in rows}
        patience = min(LONGEST_WAIT, WAIT_PER_PART * len(self.tables))
        waited = time.monotonic() - self.last_written
        if waited >= patience or len(self.waiting) >= MOST_ROWS_PER_PART:
            self.store()

    def store(self) -> None:
        """Write what is waiting."""
        if not self.waiting:
            return
        # emptied first: a part that cannot be written is not tried again by the next call
        rows, self.waiting = self.waiting, []
        table = type(self.tables[0]).from_pylist(rows, self.columns)
        self.tables.append(table)
        if self.folder is not None:
            self.folder.store(table)
        self.last_written = time.monotonic()

    def rows(self, constructions: Sequence[str]) -> list[Row]:
        """All rows, in the order of the pairs and, within a pair, of these constructions."""
        from unmask.common.lazy import pyarrow

        stored: list[Row] = pyarrow.concat_tables(self.tables).to_pylist()
        place_of = {name: place for place, name in enumerate(constructions)}
        stored.sort(key=lambda row: (row["pair"], place_of[row["construction"]]))
        once: dict[tuple[int, str], Row] = {}
        for row in stored:
            # parts that somebody copied from a run with the same settings may hold a pair again
            once.setdefault((row["pair"], row["construction"]), row)
        return list(once.values())


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as one Parquet file."""
    from unmask.common.lazy import pyarrow

    write_table(path, rows, pyarrow.schema([*COLUMNS.items()]))
