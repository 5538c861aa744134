"""Printing: plain tables that fit into 80 columns, JSON, and a progress bar that disappears at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import exp, floor, log10
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from unmask.cli import process
from unmask.formats import around_blanks, excerpt

if TYPE_CHECKING:
    from unmask.runs.progress import Progress as Report

SIGN = "loading"
"""What a terminal shows at once, before torch is loaded; what comes next is written over it."""
PATIENCE = 1.0
"""Seconds before a progress bar appears."""
FRAMES = 4
"""Drawings of the bar per second; each takes milliseconds from the work."""
LINE_SECONDS = 15.0
"""Seconds between the lines that replace a bar if standard error is not a terminal."""
LONGEST_HEADING = 400
NARROWEST, USUAL = 24, 80
"""Columns: a terminal that claims fewer than the first is taken to have the second."""


def console(at_least: int = 0) -> Console:
    """Standard output, at least `at_least` columns wide. Text is printed as it is: no markup, emoji codes or guessed colours."""
    return _plain(Console(highlight=False, markup=False, emoji=False), at_least)


def messages() -> Console:
    """Standard error, for everything but results: progress, and where files are."""
    return _plain(Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True))


def _plain(screen: Console, at_least: int = 0) -> Console:
    screen.width = max(screen.width if screen.width >= NARROWEST else USUAL, at_least)
    return screen


@contextmanager
def progress(quiet: bool = False, lines: bool = False) -> Iterator[Report | None]:
    """The progress of a command on standard error: SIGN at once, a bar after PATIENCE; both disappear at the end.

    Yields the report to hand to a function: (done, in all, what is counted), in all 0 if that is not known. If standard
    error is not a terminal, None is yielded; or, with `lines`, a report that prints a line every LINE_SECONDS. `quiet`: no bar.
    """
    screen = messages()
    if not screen.is_terminal:
        yield _lines(screen) if lines and not quiet else None
        return
    _write(screen, SIGN)
    try:
        with nullcontext() if quiet else _bar(screen) as report:
            yield report
    finally:
        _write(screen, " " * len(SIGN))


def _write(screen: Console, text: str) -> None:
    """Write a few characters that the next ones replace."""
    screen.file.write(f"{text}\r")
    screen.file.flush()


def _lines(screen: Console) -> Report:
    last = time.monotonic()

    def report(done: int, total: int, what: str = "") -> None:
        nonlocal last
        if time.monotonic() - last > LINE_SECONDS:
            last = time.monotonic()
            screen.print(f"{done:,}/{total:,} {what}" if total else what)

    return report


@contextmanager
def _bar(screen: Console) -> Iterator[Report]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, *times, console=screen, transient=True, refresh_per_second=FRAMES)
    task = bar.add_task("loading", total=None)
    ended, lock = threading.Event(), threading.Lock()

    def appear() -> None:
        with lock:
            if not ended.is_set():
                bar.start()

    def report(done: int, total: int, what: str = "") -> None:
        bar.update(task, description=what, completed=done, total=total or None)

    timer = threading.Timer(PATIENCE, appear)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        with lock:
            ended.set()
            bar.stop()


def print_json(value: object, indent: int | None = 2) -> None:
    """Print JSON on standard output, as files have it; in one line without `indent`."""
    from unmask.runs.files import as_json

    unicode = (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
    print(as_json(value, indent, ascii=not unicode))


def answered(
    verb: str,
    given: dict[str, Any],
    show: Callable[[Any], None],
    *first: Any,
    lines: bool = False,
    watched: Callable[[Report | None], Report | None] = lambda report: report,
) -> Any:
    """Call `unmask.<verb>`, print what it returns, by `show` or (with --json) as JSON, and return it.

    first     arguments before the options that were given
    watched   what the function reports its progress to, from the report that would be shown
    """
    json = given.pop("json", False)
    leads = process.rank() == 0
    with progress(quiet=not leads, lines=lines) as report:
        import unmask

        found = attrgetter(verb)(unmask)(*first, **given, progress=watched(report))
    if json and leads:
        print_json(found.to_dict())
    elif leads:
        show(found)
    return found


def print_heading(screen: Console, text: str) -> None:
    """Print the text as it was given; of a very long one only the words around its blanks."""
    screen.print(Text(around_blanks(text, LONGEST_HEADING), style="bold"))


def print_table(
    screen: Console, numbers: Sequence[str], rows: Iterable[Iterable[Any]], first: str | None = None, last: str | None = None
) -> None:
    """Print a table without lines: names (if `first` is given), right-aligned numbers, texts (if `last` is given).

    The names of the columns stand above them, if there are numbers.
    """
    style: dict[str, Any] = {"pad_edge": False, "padding": (0, 1, 0, 0), "header_style": "", "show_edge": False}
    made = Table(box=box.SIMPLE_HEAD, show_header=len(numbers) > 0, **style)
    if first is not None:
        made.add_column(first, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    if last is not None:
        made.add_column(last, overflow="fold")
    for row in rows:
        made.add_row(*row)
    screen.print(made)


def percent(log_prob: float) -> str:
    """A log-probability as a percentage: two decimals, and two significant digits where it is small."""
    value = 100 * exp(log_prob)
    if value >= 0.1 or value == 0:
        return f"{value:.2f} %"
    if value < 1e-5:
        return f"{value:.0e} %"
    return f"{value:.{1 - floor(log10(value))}f} %"


def probability(log_prob: float) -> tuple[str, str]:
    """A log-probability as a percentage, and in nats."""
    return percent(log_prob), f"{log_prob:.2f}"


def short_percent(log_prob: float) -> str:
    """A log-probability as a percentage in five characters, for tables of many columns."""
    value = 100 * exp(log_prob)
    return f"{value:.2f}" if value >= 0.005 else "<.01"


def nats(value: float) -> str:
    """Three decimals; rounding errors below zero show as zero."""
    return f"{max(value, 0.0) if value > -5e-4 else value:.3f}"


def shape(sizes: Sequence[int]) -> str:
    """Sizes of a table, such as 256 x 256."""
    return " x ".join(f"{size:,}" for size in sizes)


def marked(text: str, spans: Sequence[tuple[int, int]], width: int) -> Text:
    """The text with its filled blanks in bold, cut to the words around them if `width` is too small."""
    shown = excerpt(text, spans, width)
    made = Text(shown.text)
    for start, stop in shown.spans:
        made.stylize("bold", start, stop)
    return made
