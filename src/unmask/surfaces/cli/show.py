"""Any result on a terminal: its heading, sentences and tables, in the width of the screen.

A table that is too wide keeps its names: the lines of long heads are broken, then columns of
numbers that do not fit follow below, beside the names again. Texts in the last column are folded
on a terminal; a file or a pipe gets each in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from unmask.common.errors import NameWriter, in_python, written_by
from unmask.common.excerpts import around_blanks, excerpt
from unmask.common.result_tables import Column, Filled, Table
from unmask.common.results import LONGEST_HEADING, Result

GAP = 2  # characters between columns
FOLDED_HEAD = 14  # characters in a line of a head, where the table is too wide
NARROWEST_TEXT = 24  # characters of the last column at least, if it has texts


def print_result(screen: Console, result: Result, write: NameWriter = in_python) -> None:
    """Print what a person sees of a result; `notices()` are left to the caller.

    write   writes the arguments that its sentences name
    """
    if result.heading:
        print_heading(screen, result.heading)
    about = result.about()
    tables = result.tables()
    verdict = result.verdict()
    for sentence in about:
        _print_sentence(screen, written_by(write, sentence))
    separated = bool(about)  # an empty line separates the parts
    for table in tables:
        if separated:
            screen.print()
        print_table(screen, table, write)
        separated = True
    if verdict and separated:
        screen.print()
    if not (result.heading or about or tables or verdict):  # a part of another result
        screen.print(repr(result))
    bullet = "- " if len(verdict) > 1 else ""
    for sentence in verdict:
        _print_sentence(screen, written_by(write, sentence), bullet)


def print_heading(screen: Console, text: str) -> None:
    """Print the text as it was given; of a very long one only the words around its blanks."""
    screen.print(Text(around_blanks(text, LONGEST_HEADING), style="bold"))


def _print_sentence(screen: Console, sentence: str, bullet: str = "") -> None:
    """Print a sentence folded to the width of the screen, its lines beside the bullet."""
    before = bullet
    for paragraph in sentence.split("\n"):
        for line in Text(paragraph).wrap(screen, screen.width - len(bullet)):
            line.rstrip()
            screen.print(Text(before).append_text(line), soft_wrap=True)
            before = " " * len(bullet)


def print_table(screen: Console, table: Table, write: NameWriter = in_python) -> None:
    """Print a table with its title and notes."""
    if table.title:
        _print_sentence(screen, written_by(write, table.title))
    if table.columns[-1].text:
        _print_with_last_text(screen, table)
    else:
        _print_in_groups(screen, list(table.columns), table.shown())
    for note in table.notes:
        _print_sentence(screen, written_by(write, note))


def _print_with_last_text(screen: Console, table: Table) -> None:
    """Print a table whose last column has texts: it takes the room that the others leave, and its
    filled texts are cut to it.
    """
    shown = table.shown()
    *widths, longest = _widths(table.columns, shown)
    room = max(NARROWEST_TEXT, screen.width - _taken(widths))
    rows = []
    for values, texts in zip(table.rows, shown, strict=True):
        cells = [Text(text) for text in texts]
        if isinstance(values[-1], Filled):
            cells[-1] = _marked(values[-1], room)
        rows.append(cells)
    if screen.is_terminal:
        longest = min(longest, room)
    _print_columns(screen, table.columns, rows, [*widths, longest])


def _marked(filled: Filled, width: int) -> Text:
    """The text with its filled blanks in bold, cut to the words around them if `width` is too
    small.
    """
    part, places = excerpt(filled.text, filled.spans, width - len(filled.mark))
    styled = Text(part)
    for start, stop in places:
        styled.stylize("bold", start, stop)
    return styled.append(filled.mark)


def _print_in_groups(screen: Console, columns: list[Column], rows: list[list[str]]) -> None:
    """Print names, if the first column has them, and numbers: those that do not fit beside the
    names follow in a table below, with the names again.
    """
    widths = _widths(columns, rows)
    first_number = 1 if columns[0].text else 0
    least_of_names = min(columns[0].least, widths[0]) if columns[0].text else 0
    room = screen.width - least_of_names
    if _taken(widths[first_number:]) > room:
        columns = [*columns[:first_number], *map(_with_folded_head, columns[first_number:])]
        widths = _widths(columns, rows)
    start = first_number
    while start < len(columns):
        end = _fitting(widths, start, room)
        if start > first_number:
            screen.print()
        places = [*range(first_number), *range(start, end)]
        of_group = [widths[place] for place in places]
        if first_number == 1:
            left = screen.width - _taken(widths[start:end])
            of_group[0] = max(least_of_names, min(widths[0], left))
        cells = []
        for row in rows:
            cells.append([Text(row[place]) for place in places])
        _print_columns(screen, [columns[place] for place in places], cells, of_group)
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
    """Characters that columns take, each with the gap beside it."""
    return sum(GAP + width for width in widths)


def _fitting(widths: Sequence[int], start: int, room: int) -> int:
    """The end of the columns, from `start` on, that fit into the room; it has one at least."""
    for end in range(len(widths), start, -1):
        if _taken(widths[start:end]) <= room:
            return end
    return start + 1


def _print_columns(
    screen: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]], widths: list[int]
) -> None:
    """Print a table without lines, but one below its heads.

    widths   characters of each column; longer names and texts are folded
    """
    if any(column.head for column in columns):
        heads = [Text(column.head) for column in columns]
        _print_row(screen, columns, heads, widths, are_heads=True)
        dash = "-" if screen.options.ascii_only else "─"
        table_width = _taken(widths) - GAP
        screen.print(dash * min(table_width, screen.width))
    for row in rows:
        _print_row(screen, columns, row, widths)


def _print_row(
    screen: Console,
    columns: Sequence[Column],
    cells: Sequence[Text],
    widths: list[int],
    are_heads: bool = False,
) -> None:
    """Print the cells of a row, which may have several lines.

    Numbers stand in the last line of a folded name, but in the first one of a text. Heads end in
    the same line, above the dashes.
    """
    folded = []
    for cell, width in zip(cells, widths, strict=True):
        lines = list(cell.wrap(screen, max(1, width), overflow="fold"))
        folded.append(lines or [Text()])  # an empty text has no line
    height = max(len(lines) for lines in folded)
    beside_text = len(columns) > 1 and columns[-1].text
    for line in range(height):
        printed = Text()
        for column, lines, width in zip(columns, folded, widths, strict=True):
            from_top = (column.text or beside_text) and not are_heads
            place = line if from_top else line - (height - len(lines))
            part = lines[place] if 0 <= place < len(lines) else Text()
            padding = " " * (width - part.cell_len)
            if column.text:
                printed.append_text(part).append(padding)
            else:
                printed.append(padding).append_text(part)
            printed.append(" " * GAP)
        printed.rstrip()
        screen.print(printed, soft_wrap=True)
