"""Numbers as text. Bounds are never on the wrong side of what they bound, and less than one digit
away from it.
"""

from decimal import Decimal
from math import inf, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common.formats import (
    count,
    count_at_most,
    how_many,
    in_form,
    nats,
    percent,
    percent_at_least,
    percent_at_most,
    share,
    short_percent,
)


@given(st.floats(0, 1))
def test_percentages_of_bounds(share):
    low, high = (
        Decimal(text.removesuffix(" %"))
        for text in (percent_at_least(share), percent_at_most(share))
    )
    assert low <= 100 * Decimal(share) <= high <= 100
    assert high <= Decimal("1.1") * 100 * Decimal(share)
    assert low >= Decimal("0.9") * 100 * Decimal(share)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(7, "7"), (28_996, "28,996"), (1_010 * 10**12, "1.1e+15"), (10**300, "1.0e+300")],
)
def test_counts(count, shown):
    assert count_at_most(count) == shown


def test_things_with_their_name():
    assert [how_many(n, "text") for n in (0, 1, 2000)] == ["0 texts", "1 text", "2,000 texts"]
    assert [how_many(n, "pass", "passes") for n in (1, 2)] == ["1 pass", "2 passes"]


def test_a_share_that_rounding_put_above_one():
    assert percent_at_most(1.0000022) == "100 %"
    assert percent_at_least(1.0000022) == "100.0 %"
    assert percent_at_most(0.0) == percent_at_least(0.0) == "0 %"


def test_numbers():
    shares = {
        1: "100.00 %",
        0.01234: "1.23 %",
        0.00021: "0.021 %",
        2.1e-6: "0.00021 %",
        3e-9: "3e-07 %",
    }
    assert {share: percent(log(share)) for share in shares} == shares
    assert percent(-inf) == "0.00 %"
    short = {1: "100.00", 0.0123: "1.23", 0.00006: "0.01", 0.00004: "<.01"}
    assert {share: short_percent(log(share)) for share in short} == short
    values = {1.23456: "1.235", 0: "0.000", -3e-6: "0.000", -0.5: "-0.500"}
    assert {value: nats(value) for value in values} == values
    assert [count(12_000), share(0.1234), share(nan)] == ["12,000", "12.3%", "-"]
    two_decimals = in_form(",.2f")
    assert [two_decimals(1234.567), two_decimals(nan), two_decimals(None)] == ["1,234.57", "-", "-"]
