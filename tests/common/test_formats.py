"""Bounds as text: never on the wrong side of what they bound, and less than one digit away from
it.
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common.formats import count_at_most, percent_at_least, percent_at_most


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


def test_a_share_that_rounding_put_above_one():
    assert percent_at_most(1.0000022) == "100 %"
    assert percent_at_least(1.0000022) == "100.0 %"
    assert percent_at_most(0.0) == percent_at_least(0.0) == "0 %"
