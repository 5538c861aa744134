"""Any result on a terminal: its heading, sentences and tables, in the width of the screen.

A table that is too wide keeps its names: the lines of long heads are broken, then columns of
numbers that do not fit follow below, beside the names again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as ScreenTable
from rich.text import Text

from unmask.common.excerpts import around_blanks, excerpt
from unmask.common.result_tables import Column, Filled, Table
from unmask.common.results import LONGEST_HEADING, Result

ASCII_HEAD = box.Box("\n".join(["    ", "    ", " -- ", *["    "] * 5]) + "\n", ascii=True)
"""A line of dashes below the headings, and none between columns, for a console that has no box
characters (cp1252).
"""
GAP = 2  # characters between columns
FOLDED_HEAD = 14  # characters in a line of a head, where the table is too wide
NARROWEST_TEXT = 24  # characters that a shortened text has at least

Cell = str | Text


def print_result(screen: Console, result: Result) -> None:
    """Print what a person sees of a result; `notices()` are left to the caller."""
    if result.heading:
        print_heading(screen, result.heading)
    about = result.about()
    tables = result.tables()
    verdict = result.verdict()
    for sentence in about:
        screen.print(sentence)
    separated = bool(about)  # an empty line separates the parts
    for table in tables:
        if separated:
            screen.print()
        print_table(screen, table)
        separated = True
    if verdict and tables:
        screen.print()
    bullet = "- " if len(verdict) > 1 else ""
    for sentence in verdict:
        screen.print(bullet + sentence)


def print_heading(screen: Console, text: str) -> None:
    """Print the text as it was given; of a very long one only the words around its blanks."""
    screen.print(Text(around_blanks(text, LONGEST_HEADING), style="bold"))


def print_table(screen: Console, table: Table) -> None:
    """Print a table with its title and notes."""
    if table.title:
        screen.print(table.title)
    columns = list(table.columns)
    if columns[-1].text:
        _print_columns(screen, columns, _with_last_text(screen, table))
    else:
        _print_groups(screen, columns, table.shown())
    for note in table.notes:
        screen.print(note)


def _with_last_text(screen: Console, table: Table) -> list[list[Cell]]:
    """The rows as they are printed, the filled texts of the last column cut to the room that the
    other columns leave.
    """
    shown = table.shown()
    widths = _widths(table.columns, shown)
    room = screen.width - _taken(widths[:-1])
    rows: list[list[Cell]] = []
    for values, texts in zip(table.rows, shown, strict=True):
        last: Cell = texts[-1]
        if isinstance(values[-1], Filled):
            last = _marked(values[-1], max(NARROWEST_TEXT, room))
        rows.append([*texts[:-1], last])
    return rows


def _marked(filled: Filled, width: int) -> Text:
    """The text with its filled blanks in bold, cut to the words around them if `width` is too
    small.
    """
    part, places = excerpt(filled.text, filled.spans, width - len(filled.mark))
    styled = Text(part)
    for start, stop in places:
        styled.stylize("bold", start, stop)
    return styled.append(filled.mark)


def _print_groups(screen: Console, columns: list[Column], rows: list[list[str]]) -> None:
    """Print names, if the first column has them, and numbers: those that do not fit beside the
    names follow in a table below, with the names again.
    """
    widths = _widths(columns, rows)
    first_number = 1 if columns[0].text else 0
    room = screen.width
    if columns[0].text:
        room -= min(columns[0].least, widths[0])
    if _taken(widths[first_number:]) > room:
        columns = [*columns[:first_number], *map(_with_folded_head, columns[first_number:])]
        widths = _widths(columns, rows)
    start = first_number
    while start < len(columns):
        end = _fitting(widths, start, room)
        if start > first_number:
            screen.print()
        group = [*columns[:first_number], *columns[start:end]]
        cells: list[list[Cell]] = [[*row[:first_number], *row[start:end]] for row in rows]
        _print_columns(screen, group, cells)
        start = end


def _with_folded_head(column: Column) -> Column:
    lines = [fill(line, FOLDED_HEAD) for line in column.head.split("\n")]
    return replace(column, head="\n".join(lines))


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Characters of each column."""
    widths = []
    for place, column in enumerate(columns):
        cells = [row[place] for row in rows]
        widths.append(_width([column.head, *cells]))
    return widths


def _width(cells: Sequence[str]) -> int:
    """Characters of the longest line of a column."""
    lines = "\n".join(cells).split("\n")
    return max(map(cell_len, lines))


def _taken(widths: Sequence[int]) -> int:
    """Characters that columns take, each with the gap before it."""
    return sum(GAP + width for width in widths)


def _fitting(widths: Sequence[int], start: int, room: int) -> int:
    """The end of the columns, from `start` on, that fit into the room; it has one at least."""
    for end in range(len(widths), start, -1):
        if _taken(widths[start:end]) <= room:
            return end
    return start + 1


def _print_columns(
    screen: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]
) -> None:
    """Print a table without lines, but one below its heads."""
    under_heads = box.SIMPLE_HEAD
    if screen.options.ascii_only:
        under_heads = ASCII_HEAD
    on_screen = ScreenTable(
        box=under_heads,
        show_header=any(column.head for column in columns),
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="",
        show_edge=False,
    )
    # Numbers stand in the last line of a name that is folded, but in the first one of a text.
    beside_text = len(columns) > 1 and columns[-1].text
    place: Literal["top", "bottom"] = "top" if beside_text else "bottom"
    for column in columns:
        if column.text:
            on_screen.add_column(column.head, overflow="fold")
        else:
            on_screen.add_column(column.head, justify="right", no_wrap=True, vertical=place)
    for row in rows:
        on_screen.add_row(*row)
    screen.print(on_screen)
