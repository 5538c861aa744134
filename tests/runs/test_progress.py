"""Long work says first how much there is and about how long it takes."""

from __future__ import annotations

import pytest

from unmask.runs import progress
from unmask.runs.progress import announced, in_words


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_long_work_is_announced_once(clock):
    lines, reports = [], []
    with announced(lines.append, lambda *report: reports.append(report)) as report:
        for done in range(100):
            clock[0] = 1.5 * done
            report(done, 1000, f"pairs ({done} failed)" if done else "pairs")
    assert lines == ["1,000 pairs (3 failed), about 25 minutes"] and len(reports) == 100


def test_the_first_of_many_says_nothing_about_the_others(clock):
    """It waits for what is compiled once: 20 seconds, then a tenth of a second each."""
    lines = []
    with announced(lines.append) as report:
        for done in range(100):
            clock[0] = 20 * (done > 0) + 0.1 * done
            report(done, 1500, "steps")
    assert lines[-1] == "1,500 steps, about 2 minutes"


def test_short_work_is_not_announced(clock):
    lines = []
    with announced(lines.append) as report:
        for done in range(5):
            clock[0] = 2.4 * done
            report(done, 4, "passes")
            report(done, 0, "lines read")
    assert lines == []


def test_work_whose_first_item_is_slow_is_announced_without_a_duration(monkeypatch):
    monkeypatch.setattr(progress, "LONG", 0.01)
    from threading import Event

    written, lines = Event(), []
    with announced(lambda line: (lines.append(line), written.set())) as report:
        report(0, 7, "pairs")
        assert written.wait(600)
    assert lines == ["7 pairs, more than 0 seconds"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "12 seconds"), (89, "89 seconds"), (90, "2 minutes"), (7000, "2 hours"), (5e5, "6 days")]
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
