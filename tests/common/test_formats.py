"""Bounds as text: never on the wrong side of what they bound, and less than one digit away from
it.
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.common.formats import (
    around_blanks,
    count_at_most,
    excerpt,
    percent_at_least,
    percent_at_most,
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


def test_a_share_that_rounding_put_above_one():
    assert percent_at_most(1.0000022) == "100 %"
    assert percent_at_least(1.0000022) == "100.0 %"
    assert percent_at_most(0.0) == percent_at_least(0.0) == "0 %"


def test_a_text_without_spaces_is_cut_around_its_blanks():
    text = "ACDEFGHIKL" * 20 + "[MASK]" + "MNPQRSTVWY" * 20 + "[MASK]" + "ACDEFGHIKL" * 20
    shown = around_blanks(text, 60)
    assert len(shown) <= 60
    assert shown.count("[MASK]") == 2
    assert shown.count("…") == 3
    assert "HIKL[MASK]MNPQ" in shown
    assert "TVWY[MASK]ACDE" in shown


@given(st.text(st.sampled_from("ab "), min_size=1, max_size=200), st.data(), st.integers(20, 60))
def test_spans_stay_on_their_letters_and_the_width_is_kept(text, data, width):
    places = sorted(
        data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=3, unique=True))
    )
    spans = [(place, place + 1) for place in places]
    shown, there = excerpt(text, spans, width)
    assert [shown[a:b] for a, b in there] == [text[a:b] for a, b in spans]
    assert len(shown) <= max(width, 6 * len(spans) + 2)
