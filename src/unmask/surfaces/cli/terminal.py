"""Printing: plain tables that fit into 80 columns, JSON, and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from unmask.common.excerpts import excerpt
from unmask.common.formats import number
from unmask.runs.progress import Progress as Report
from unmask.runs.progress import in_words

if TYPE_CHECKING:
    import pandas

FRAMES = 4
"""Drawings of a progress bar per second."""
LINE_SECONDS = 60.0
"""Between the lines that replace the bar where there is no terminal."""

ASCII_HEAD = box.Box("\n".join(["    ", "    ", " -- ", *["    "] * 5]) + "\n", ascii=True)
"""A line of dashes below the headings, and none between columns, for a console that has no box
characters (cp1252).
"""
NARROWEST = 24
USUAL = 80
"""Columns: a terminal that claims fewer than the first is taken to have the second."""


def console(at_least: int = 0, stderr: bool = False) -> Console:
    """Standard output, at least `at_least` columns wide. Text is printed as it is: no markup,
    emoji codes or guessed colours.
    """
    screen = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=stderr)
    width = screen.width
    if width < NARROWEST:
        width = USUAL
    screen.width = max(width, at_least)
    return screen


def messages() -> Console:
    """Standard error, for everything but results: progress, and where files are."""
    return console(stderr=True)


def is_terminal() -> bool:
    """Whether results are read by a person."""
    return sys.stdout.isatty()


@contextmanager
def progress(quiet: bool = False) -> Iterator[Report | None]:
    """The progress of a command on standard error, None if `quiet`: a bar, or a line per minute."""
    screen = messages()
    if quiet:
        yield None
    elif not screen.is_terminal:
        yield _Lines(screen).report
    else:
        with _bar(screen) as bar:
            task = bar.add_task("loading", total=None)

            def draw(done: int, total: int, what: str = "") -> None:
                bar.update(task, description=what, completed=done, total=total or None)

            yield draw


def _bar(screen: Console) -> Progress:
    """A progress bar that disappears at its end."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        refresh_per_second=FRAMES,
        redirect_stdout=False,  # results go where the user sends them
        redirect_stderr=False,
    )


class _Lines:
    """Progress as lines: one a minute, with the time that is left."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.last_line = time.monotonic()
        # The work that is measured now, for its speed.
        self.total = 0
        self.done_before = 0
        self.began = 0.0

    def report(self, done: int, total: int, what: str = "") -> None:
        """Called as work goes on."""
        now = time.monotonic()
        if total != self.total or done <= self.done_before:  # other work than before, or the first
            self.total = total
            self.done_before = done
            self.began = now
        if now - self.last_line <= LINE_SECONDS:
            return
        self.last_line = now
        if total:
            left = self._time_left(done, now - self.began)
            self.screen.print(f"{done:,}/{total:,} {what}{left}")
        else:
            self.screen.print(what)

    def _time_left(self, done: int, seconds: float) -> str:
        """In words, how long the rest takes; no words before anything is done, and at the end.

        seconds   since the work that is measured began
        """
        if not self.done_before < done < self.total:
            return ""
        of_each = seconds / (done - self.done_before)
        return f", about {in_words(of_each * (self.total - done))} left"


def rows_stream() -> Any:
    """Standard output for rows of data: in UTF-8 if it is a file or a pipe, whatever encoding
    the system prefers.
    """
    if not is_terminal():
        with suppress(AttributeError, ValueError, OSError):
            out: Any = sys.stdout
            out.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout


def print_json(value: object, indent: int | None = 2) -> None:
    """Print JSON on standard output, as files have it; in one line without `indent`."""
    from unmask.common.files import as_json

    encoding = (sys.stdout.encoding or "ascii").lower()
    is_unicode = encoding.replace("-", "").startswith("utf")
    print(as_json(value, indent, ascii=not is_unicode))


def print_names(
    screen: Console,
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    first: str,
    names: int = 24,
) -> None:
    """Print a table of names and numbers: names fold in `names` columns, and numbers that do
    not fit follow in a table below.

    numbers   headings of the numbers
    rows      a name, then its numbers
    first     heading of the names
    """
    listed = list(rows)
    longest_name = max(len(name) for name in [first, *(row[0] for row in listed)])
    room = screen.width - min(names, longest_name)
    columns = zip(numbers, *(row[1:] for row in listed), strict=True)
    widths = [2 + _width(column) for column in columns]
    start = 0
    while start < max(1, len(widths)):  # one table, of names alone, where there are no numbers
        end = _fitting(widths, start, room)
        if start > 0:
            screen.print()
        of_table = [[row[0], *row[1 + start : 1 + end]] for row in listed]
        print_table(screen, numbers[start:end], of_table, first=first)
        start = end


def _width(cells: Sequence[str]) -> int:
    """Characters of the longest line of a column."""
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _fitting(widths: Sequence[int], start: int, room: int) -> int:
    """The end of the columns, from `start` on, that fit into the room; it has one at least."""
    for end in range(len(widths), start, -1):
        if sum(widths[start:end]) <= room:
            return end
    return start + 1


def print_table(
    screen: Console,
    numbers: Sequence[str],
    rows: Iterable[Iterable[Any]],
    first: str | None = None,
    last: str | None = None,
) -> None:
    """Print a table without lines: names (if `first` is given), right-aligned numbers, texts
    (if `last` is given).
    """
    under_heads = box.SIMPLE_HEAD
    if screen.options.ascii_only:
        under_heads = ASCII_HEAD
    table = Table(
        box=under_heads,
        show_header=len(numbers) > 0,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="",
        show_edge=False,
    )
    if first is not None:
        table.add_column(first, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    if last is not None:
        table.add_column(last, overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen.print(table)


def print_frame(screen: Console, frame: pandas.DataFrame) -> None:
    """Print a data frame: names in its first column, numbers with three decimals."""
    first, *numbers = map(str, frame.columns)
    rows = []
    for row in frame.itertuples(index=False):
        rows.append([number(cell) for cell in row])
    print_names(screen, numbers, rows, first=first)


def marked(text: str, spans: Sequence[tuple[int, int]], width: int) -> Text:
    """The text with its filled blanks in bold, cut to the words around them if `width` is too
    small.
    """
    part, places = excerpt(text, spans, width)
    styled = Text(part)
    for start, stop in places:
        styled.stylize("bold", start, stop)
    return styled
