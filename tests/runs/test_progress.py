"""Long work says first how much there is and about how long it takes."""

import pytest

from unmask.runs import progress
from unmask.runs.progress import announced, in_words


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def slow_first(done):
    """It waits for what is compiled once: 20 seconds, then a tenth of a second each."""
    return 20 * (done > 0) + 0.1 * done


@pytest.mark.parametrize(
    ("total", "seconds", "lines"),
    [
        (1000, lambda done: 1.5 * done, ["1,000 pairs (3 failed), about 25 minutes"]),
        (1500, slow_first, ["1,500 pairs (21 failed), about 2 minutes"]),
        (4, lambda done: 2.4 * done, []),
    ],
)
def test_long_work_is_announced_once(clock, total, seconds, lines):
    written, reports = [], []
    report = announced(written.append, lambda *report: reports.append(report))
    for done in range(min(total, 100)):
        clock[0] = seconds(done)
        report(done, total, f"pairs ({done} failed)")
        report(done, 0, "lines read")
    assert written == lines and len(reports) == 2 * min(total, 100)


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "12 seconds"), (89, "89 seconds"), (90, "2 minutes"), (7000, "2 hours"), (5e5, "6 days")]
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
