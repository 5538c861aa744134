"""The callback that reports progress, the sentence that says how long work takes, and how work ends early."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

LONG, SURE, MANY = 10.0, 2.0, 100
"""Seconds of work that is announced, and of work from which its whole duration is estimated; of MANY things the first does not
count: it may wait for what is compiled or loaded once."""


@runtime_checkable
class Progress(Protocol):
    """Called now and then with how much is done, how much there is in all (0: not known), and what is being counted."""

    def __call__(self, done: int, total: int, what: str = ...) -> None: ...


class Enough(Exception):
    """Raised by a model that gives no more passes, because its user wants what there is.

    A search of fillings, scores, dependence and mutants then return what they have; other work passes it on.
    """


def announced(write: Callable[[str], None], report: Progress) -> Progress:
    """`report`, which first writes how much work there is and about how long it takes, such as "1,000 pairs, about 8 minutes".

    Work is announced once, as soon as SURE seconds have shown that it takes more than LONG; another total is other work.
    """
    begun: dict[int, tuple[float, int, int]] = {}
    announced = {0}

    def reported(done: int, total: int, what: str = "") -> None:
        now = time.monotonic()
        began, before, whole = begun.setdefault(total, (now, done, total - done))
        if done > before == total - whole and whole >= MANY:
            begun[total] = now, done, whole
        elif total not in announced and done > before and now - began >= SURE:
            announced.add(total)
            if (seconds := (now - began) / (done - before) * whole) > LONG:
                write(f"{whole:,} {what}, about {in_words(seconds)}")
        report(done, total, what)

    return reported


def in_words(seconds: float) -> str:
    """A duration in its largest unit, such as "8 minutes"."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
