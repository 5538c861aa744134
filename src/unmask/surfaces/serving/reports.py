"""Progress in words: how much of the work is done, and how long the rest takes."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypedDict

from unmask.common.formats import count
from unmask.runs.progress import in_words

EARLY = 1.0  # seconds of work, before which nothing is said about the time left
SOON = 3.0  # seconds left; less is not worth saying


class Report(TypedDict):
    """How far work is.

    done    things that are done
    total   things in all; 0 where that is not known
    what    what the things are called; "" where they have no name
    share   of the work that is done, from 0 to 1; None where the total is not known
    said    all of it in words, and the time left where it is worth saying
    """

    done: int
    total: int
    what: str
    share: float | None
    said: str


class Reports:
    """The reports of one job.

    The time left is estimated from the speed so far. A job may do several works, one after the
    other; the clock starts again for each. A report begins another work if its total or the name
    of its things has changed, or if fewer things are done than at the last report.

    clock   returns seconds
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._work: tuple[int, str] | None = None  # total and name of the things of this work
        self._began = 0.0  # when the clock was started
        self._done_at_start = 0  # things that were done then
        self._latest = 0  # things that were done at the last report

    def report(self, done: int, total: int, what: str = "") -> Report:
        """The report of a call of a `unmask.runs.progress.Progress` with these values."""
        self._follow(done, total, what)
        if total == 0:
            said = f"{what} …".lstrip()
            return {"done": done, "total": 0, "what": what, "share": None, "said": said}
        said = f"{count(done)} of {count(total)} {what}".rstrip()
        left = self._seconds_left(done, total)
        if left is not None and left >= SOON:
            said = f"{said}, about {in_words(left)} left"
        share = min(1.0, done / total)  # a total may be an estimate
        return {"done": done, "total": total, "what": what, "share": share, "said": said}

    def _follow(self, done: int, total: int, what: str) -> None:
        """Start the clock again if this is other work."""
        work = (total, what)
        is_other = work != self._work or done < self._latest
        if is_other:
            self._work = work
            self._done_at_start = done
            self._began = self._clock()
        self._latest = done

    def _seconds_left(self, done: int, total: int) -> float | None:
        """Seconds until the work is done; None where it is too early to say."""
        gone = self._clock() - self._began
        done_since = done - self._done_at_start
        if gone <= EARLY or done_since == 0:
            return None
        return gone / done_since * (total - done)
