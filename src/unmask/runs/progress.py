"""The callback that reports progress, a duration in words, and how work ends early."""

from __future__ import annotations

import signal
from typing import Protocol, runtime_checkable

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Signals that ask a program to stop: Windows has no SIGHUP, and it alone has SIGBREAK
(Ctrl-Break).
"""


@runtime_checkable
class Progress(Protocol):
    """Called now and then with how much is done, how much there is in all (0: not known), and
    what is being counted.
    """

    def __call__(self, done: int, total: int, what: str = ...) -> None: ...


class Enough(Exception):
    """Raised by a model that gives no more passes, because its user wants what there is.

    A search of fillings, scores, dependence, mutants and chains in memory then return what they
    have; other work passes it on.
    """


def stopping_signals() -> list[signal.Signals]:
    """The signals of STOPPING that this system has."""
    return [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]


def in_words(seconds: float) -> str:
    """A duration in its largest unit, such as "8 minutes"."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
