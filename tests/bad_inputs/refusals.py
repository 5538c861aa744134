"""How a command line is given in these tests, and what a refusal is."""

from __future__ import annotations

import shlex
import signal
from contextlib import contextmanager

from command_runner import invoke

SECONDS = 600
"""A refusal that takes longer came after work that it should have come before."""


class TooLate(BaseException):
    """Not an `Exception`: the command line would explain it, and refuse."""


def given(line, places, text=None, seconds=SECONDS):
    """How a command ends; {world} and such in its line, or its words, are `places`. A traceback is raised."""
    words = shlex.split(line) if isinstance(line, str) else list(line)
    for name, place in places.items():
        words = [word.replace(f"{{{name}}}", str(place)) for word in words]
    with at_most(seconds):
        return invoke(words, input=text, catch_exceptions=False)


def refusal(result):
    """The line that a refused command ends in: one on standard error, besides warnings, and nothing on standard output."""
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1 and lines[0].startswith("error: ") and len(lines[0]) > len("error: ") + 10, result.stderr
    return lines[0]


def trees(places):
    """Every file of the world, and of the folder in which commands are given, with size and date."""
    folders = (places["world"], places["new"].parent)
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for folder in folders for p in sorted(folder.rglob("*"))}


@contextmanager
def at_most(seconds):
    """Ends what takes longer."""

    def late(*args):
        raise TooLate(f"not ended after {seconds} seconds")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
