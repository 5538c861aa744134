"""Progress in words, on a clock of the test."""

import pytest

from unmask.surfaces.serving.reports import EARLY, SOON, Reports

PASSES = "passes of the model"


class Clock:
    """Stands still until the test moves it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reports(clock):
    return Reports(clock)


def test_counts_and_the_time_that_is_left(reports, clock):
    first = reports.report(0, 7000, PASSES)
    assert first["said"] == "0 of 7,000 passes of the model"
    assert first["share"] == 0
    clock.now += 10
    later = reports.report(3120, 7000, PASSES)
    assert later["share"] == 3120 / 7000
    seconds = 10 / 3120 * (7000 - 3120)  # 12.4
    assert later["said"] == f"3,120 of 7,000 passes of the model, about {seconds:.0f} seconds left"
    clock.now += 990
    assert reports.report(3500, 7000, PASSES)["said"].endswith(", about 17 minutes left")


@pytest.mark.parametrize(("seconds", "says_time"), [(EARLY, False), (EARLY + 0.1, True)])
def test_nothing_is_said_of_time_in_the_first_second(reports, clock, seconds, says_time):
    reports.report(0, 100, PASSES)
    clock.now += seconds
    assert ("left" in reports.report(1, 100, PASSES)["said"]) == says_time


@pytest.mark.parametrize(("left", "says_time"), [(SOON - 0.1, False), (SOON, True)])
def test_nothing_is_said_of_the_last_seconds(reports, clock, left, says_time):
    reports.report(0, 2, PASSES)
    clock.now += left  # the second half takes as long as the first
    assert ("left" in reports.report(1, 2, PASSES)["said"]) == says_time


def test_other_work_has_a_time_of_its_own(reports, clock):
    reports.report(0, 10, "passes for candidates")
    clock.now += 60
    reports.report(10, 10, "passes for candidates")
    assert "left" not in reports.report(0, 100, PASSES)["said"], "as yet nothing is known of it"
    clock.now += 2
    assert reports.report(50, 100, PASSES)["said"] == "50 of 100 passes of the model"  # 2 s left
    assert reports.report(20, 100, PASSES)["said"] == "20 of 100 passes of the model", "again"
    clock.now += 2
    assert reports.report(30, 100, PASSES)["said"].endswith(", about 14 seconds left")


def test_what_was_done_at_the_first_report_took_no_time(reports, clock):
    """Of work that goes on in the middle."""
    reports.report(90, 100, PASSES)
    clock.now += 5
    assert reports.report(91, 100, PASSES)["said"].endswith(", about 45 seconds left")


def test_a_total_that_is_not_known(reports, clock):
    reported = reports.report(0, 0, "loading")
    assert (reported["share"], reported["said"]) == (None, "loading …")
    clock.now += 60
    assert reports.report(5, 0, "loading")["said"] == "loading …"


def test_a_total_that_is_not_known_of_things_without_a_name(reports):
    assert reports.report(0, 0)["said"] == "…"


def test_more_than_was_expected_is_all_of_it(reports):
    """A share is the length of a bar."""
    reported = reports.report(12, 10, PASSES)
    assert (reported["share"], reported["done"]) == (1.0, 12)
