"""The terminal: its width, rows and JSON on standard output, and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from unmask.runs.progress import Progress as Report
from unmask.runs.progress import in_words

if TYPE_CHECKING:
    pass

FRAMES = 4
"""Drawings of a progress bar per second."""
LINE_SECONDS = 60.0
"""Between the lines that replace the bar where there is no terminal."""

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
