"""What the terminal shows of numbers and long texts."""

from __future__ import annotations

from math import log

import pytest

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
