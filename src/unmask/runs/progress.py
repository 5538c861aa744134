"""The callback that reports progress, the sentence that says how long work takes, and how work ends early."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
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


@contextmanager
def announced(write: Callable[[str], None], report: Progress | None = None) -> Iterator[Progress]:
    """`report`, which first writes how much work there is and about how long it takes, such as "1,000 pairs, about 8 minutes".

    Work is announced once, if it takes more than LONG seconds: as soon as SURE seconds have shown how fast it is, and without a
    duration where nothing is done by then. Work with another total is other work.
    """
    begun: dict[int, tuple[float, int]] = {}
    timers: dict[int, Timer] = {}
    whole: dict[int, int] = {}

    def reported(done: int, total: int, what: str = "") -> None:
        now = time.monotonic()
        if total and total not in begun:
            begun[total], whole[total] = (now, done), total - done
            timers[total] = Timer(LONG, write, [f"{total - done:,} {what}, more than {LONG:.0f} seconds"])
            timers[total].daemon = True
            timers[total].start()
        began, before = begun.get(total, (now, done))
        if total in timers and done > before == total - whole[total] and whole[total] >= MANY:
            begun[total] = now, done
        elif total in timers and done > before and now - began >= SURE:
            timers.pop(total).cancel()
            seconds = (now - began) / (done - before) * whole[total]
            if seconds > LONG:
                write(f"{whole[total]:,} {what}, about {in_words(seconds)}")
        if report is not None:
            report(done, total, what)

    try:
        yield reported
    finally:
        for timer in timers.values():
            timer.cancel()


def in_words(seconds: float) -> str:
    """A duration in its largest unit, such as "8 minutes"."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
