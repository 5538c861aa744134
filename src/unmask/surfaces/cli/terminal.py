"""Printing: plain tables that fit into 80 columns, JSON, and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import exp, floor, isnan, log10
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

from unmask.common.excerpts import around_blanks, excerpt
from unmask.runs.progress import Progress as Report
from unmask.runs.progress import in_words

if TYPE_CHECKING:
    import pandas

FRAMES, LINE_SECONDS = 4, 60.0
"""Drawings of a progress bar per second, and seconds between the lines that replace it where
there is no terminal.
"""
NARROWEST, USUAL, LONGEST_HEADING = 24, 80, 400
"""Columns: a terminal that claims fewer than the first is taken to have the second. Characters
of a heading.
"""

ASCII_HEAD = box.Box("\n".join(["    ", "    ", " -- ", *["    "] * 5]) + "\n", ascii=True)
"""A line of dashes below the headings, and none between columns, for a console that has no box
characters (cp1252).
"""


def console(at_least: int = 0, stderr: bool = False) -> Console:
    """Standard output, at least `at_least` columns wide. Text is printed as it is: no markup,
    emoji codes or guessed colours.
    """
    screen = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=stderr)
    screen.width = max(screen.width if screen.width >= NARROWEST else USUAL, at_least)
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
        yield _lines(screen)
    else:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
        )
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        streams: dict[str, Any] = {
            "redirect_stdout": False,
            "redirect_stderr": False,
        }  # results go where the user sends them
        with Progress(
            *columns, *times, console=screen, transient=True, refresh_per_second=FRAMES, **streams
        ) as bar:
            task = bar.add_task("loading", total=None)

            def draw(done: int, total: int, what: str = "") -> None:
                bar.update(task, description=what, completed=done, total=total or None)

            yield draw


def _lines(screen: Console) -> Report:
    """Lines for a log, one per LINE_SECONDS of work: how much is done, and how long the rest
    takes at this speed.
    """
    work, began, before, last = 0, 0.0, 0, time.monotonic()

    def report(done: int, total: int, what: str = "") -> None:
        nonlocal work, began, before, last
        now = time.monotonic()
        if (
            total != work or done <= before
        ):  # other work than before, or the first: its speed is measured from here on
            work, began, before = total, now, done
        if now - last > LINE_SECONDS:
            last = now
            left = (
                f", about {in_words((now - began) / (done - before) * (total - done))} left"
                if before < done < total
                else ""
            )
            screen.print(f"{done:,}/{total:,} {what}{left}" if total else what)

    return report


def rows_stream() -> Any:
    """Standard output for rows of data: in UTF-8 if it is a file or a pipe, whatever encoding
    the system prefers.
    """
    if not is_terminal():
        with suppress(AttributeError, ValueError, OSError):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    return sys.stdout


def print_json(value: object, indent: int | None = 2) -> None:
    """Print JSON on standard output, as files have it; in one line without `indent`."""
    from unmask.common.files import as_json

    unicode = (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
    print(as_json(value, indent, ascii=not unicode))


def print_heading(screen: Console, text: str) -> None:
    """Print the text as it was given; of a very long one only the words around its blanks."""
    screen.print(Text(around_blanks(text, LONGEST_HEADING), style="bold"))


def print_names(
    screen: Console,
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    first: str,
    names: int = 24,
) -> None:
    """Print a table of names and numbers: names fold in `names` columns, and numbers that do
    not fit follow in a table below.
    """
    rows, start = list(rows), 0
    room = screen.width - min(names, max(map(len, [first, *(row[0] for row in rows)])))
    columns = zip(numbers, *(row[1:] for row in rows), strict=True)
    widths = [
        2 + max(len(line) for cell in column for line in cell.split("\n")) for column in columns
    ]
    while start < max(1, len(widths)):
        end = next(
            (end for end in range(len(widths), start, -1) if sum(widths[start:end]) <= room),
            start + 1,
        )
        screen.print(end="\n" if start else "")
        print_table(
            screen,
            numbers[start:end],
            ([row[0], *row[1 + start : 1 + end]] for row in rows),
            first=first,
        )
        start = end


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
    style: dict[str, Any] = {
        "pad_edge": False,
        "padding": (0, 1, 0, 0),
        "header_style": "",
        "show_edge": False,
    }
    under_heads = ASCII_HEAD if screen.options.ascii_only else box.SIMPLE_HEAD
    table = Table(box=under_heads, show_header=len(numbers) > 0, **style)
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
    heads = list(map(str, frame.columns))
    rows = ([number(cell) for cell in row] for row in frame.itertuples(index=False))
    print_names(screen, heads[1:], rows, first=heads[0])


def percent(log_prob: float) -> str:
    """A log-probability as a percentage: two decimals, and two significant digits where it is
    small.
    """
    value = 100 * exp(log_prob)
    if value >= 0.1 or value == 0:
        return f"{value:.2f} %"
    return f"{value:.0e} %" if value < 1e-5 else f"{value:.{1 - floor(log10(value))}f} %"


def short_percent(log_prob: float) -> str:
    """A log-probability as a percentage in five characters, for tables of many columns."""
    value = 100 * exp(log_prob)
    return f"{value:.2f}" if value >= 0.005 else "<.01"


def nats(value: float) -> str:
    """Three decimals; rounding errors below zero show as zero."""
    return f"{max(value, 0.0) if value > -5e-4 else value:.3f}"


def number(value: Any, form: str = ".3f") -> str:
    """A float by its format, a dash where there is none; other values as text."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return "-"
    return format(value, form) if isinstance(value, float) else str(value)


def marked(text: str, spans: Sequence[tuple[int, int]], width: int) -> Text:
    """The text with its filled blanks in bold, cut to the words around them if `width` is too
    small.
    """
    part, places = excerpt(text, spans, width)
    styled = Text(part)
    for start, stop in places:
        styled.stylize("bold", start, stop)
    return styled
