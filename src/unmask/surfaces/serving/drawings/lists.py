"""The answer to a list of texts: a row each, of which the page shows the first ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from unmask.common.formats import count
from unmask.common.result_tables import Column, Table
from unmask.scoring.scored_batch import STOPPED

SHOWN_ROWS = 200
"""The most rows that the page draws; its files have all."""
REASON = "reason"
"""The column of why a row lacks a number."""


class BatchDrawing(TypedDict):
    """What the page draws of a list.

    first     the table of the first rows, with a note if there are more
    read_as   how the list was read, in a sentence
    part      "12 of 300 rows" if the work was stopped: those that it came to; else ""
    """

    first: dict[str, Any]
    read_as: str
    part: str


class BatchAnswer(TypedDict):
    """The answer to a list.

    rows    the table of all rows
    view    what a person sees of the verb's result; it has no sentence if all texts were filled
    drawn   what the page draws
    """

    rows: dict[str, Any]
    view: dict[str, Any]
    drawn: BatchDrawing


def batch_answer(
    rows: Sequence[dict[str, Any]], view: dict[str, Any], *, read_as: str
) -> BatchAnswer:
    """The answer with these rows.

    read_as   how the list was read, in words that follow "Read as"
    """
    table = _table(rows)
    notes = []
    if len(rows) > SHOWN_ROWS:
        notes = [f"The first {SHOWN_ROWS} of {count(len(rows))} rows; the files have all."]
    first = Table(table.columns, table.rows[:SHOWN_ROWS], notes=notes)
    n_stopped = len([row for row in rows if _was_stopped(row)])
    part = ""
    if n_stopped:
        n_done = len(rows) - n_stopped
        part = f"{count(n_done)} of {count(len(rows))} rows"
    return {
        "rows": table.to_dict(),
        "view": view,
        "drawn": {"first": first.to_dict(), "read_as": f"Read as {read_as}.", "part": part},
    }


def _was_stopped(row: dict[str, Any]) -> bool:
    """Whether a row lacks a number because the work was stopped: a reason of several sentences
    may have this one among them.
    """
    reason = row.get(REASON) or ""  # None of a row that lacks nothing
    return STOPPED in reason


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """Rows as a table, whose columns are those of all rows."""
    names = _names(rows)
    columns = []
    for name in names:
        has_texts = any(isinstance(row.get(name), str) for row in rows)
        columns.append(Column(name, text=has_texts))
    cells = []
    for row in rows:
        cells.append([row.get(name) for name in names])
    return Table(columns, cells)


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of rows, in the order in which they come. Reasons are last, if a row has one."""
    names: list[str] = []
    for row in rows:
        for name in row:
            if name != REASON and name not in names:
                names.append(name)
    if any(row.get(REASON) for row in rows):
        names.append(REASON)
    return names
