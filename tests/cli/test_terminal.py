"""What the terminal shows of numbers and long texts."""

from __future__ import annotations

from io import StringIO
from math import log

import pytest
from rich.console import Console

from unmask.cli import terminal
from unmask.cli.terminal import nats, percent, short_percent


@pytest.mark.parametrize(
    ("probability", "shown"),
    [(1, "100.00 %"), (0.5, "50.00 %"), (0.01234, "1.23 %"), (0.00021, "0.021 %"), (2.1e-6, "0.00021 %"), (3e-9, "3e-07 %")],
)
def test_percent(probability, shown):
    assert percent(log(probability)) == shown


def test_percent_of_the_impossible():
    assert percent(float("-inf")) == "0.00 %"


@pytest.mark.parametrize(("probability", "shown"), [(1, "100.00"), (0.0123, "1.23"), (0.00006, "0.01"), (0.00004, "<.01")])
def test_short_percent(probability, shown):
    assert short_percent(log(probability)) == shown


@pytest.mark.parametrize(("value", "shown"), [(1.23456, "1.235"), (0, "0.000"), (-3e-6, "0.000"), (-0.5, "-0.500")])
def test_nats(value, shown):
    assert nats(value) == shown


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_at_once_that_something_happens(monkeypatch, quiet):
    """Before the work, in which torch is loaded; nothing of it is left at the end."""
    shown = StringIO()
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=True))
    with terminal.progress(quiet=quiet) as report:
        assert shown.getvalue() == "loading\r" and (report is None) == quiet
    assert shown.getvalue().endswith(" " * len("loading") + "\r")


def test_what_is_not_a_terminal_gets_no_bar(monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(terminal, "messages", lambda: Console(file=shown, force_terminal=False))
    with terminal.progress() as report:
        report(1, 2, "passes")
    with terminal.progress(quiet=True) as report:
        assert report is None
    assert shown.getvalue() == ""
