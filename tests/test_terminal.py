"""What the terminal shows of numbers and long texts."""

from __future__ import annotations

from math import log

import pytest

from unmask.terminal import excerpt, number, percent


@pytest.mark.parametrize(
    ("probability", "shown"),
    [(1, "100.00 %"), (0.5, "50.00 %"), (0.01234, "1.23 %"), (0.00021, "0.021 %"), (2.1e-6, "0.00021 %"), (3e-9, "3e-07 %")],
)
def test_percent(probability, shown):
    assert percent(log(probability)) == shown


def test_percent_of_the_impossible():
    assert percent(float("-inf")) == "0.00 %"


@pytest.mark.parametrize(("value", "shown"), [(1.23456, "1.235"), (0, "0"), (3e-6, "3e-06"), (12345.6, "1.235e+04")])
def test_number(value, shown):
    assert number(value) == shown


def test_a_short_text_stays_whole():
    assert excerpt("a cat sat", [(2, 5)], 20).plain == "a cat sat"


def test_a_long_text_keeps_the_words_around_its_blanks():
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    spans = [(text.index(w), text.index(w) + len(w)) for w in ("three", "twelve")]
    shown = excerpt(text, spans, 44)
    assert len(shown.plain) <= 44 and "three" in shown.plain and "twelve" in shown.plain and "…" in shown.plain
    assert all(word in text.split() for word in shown.plain.replace("…", " ").split())
    assert sorted(shown.plain[span.start : span.end] for span in shown.spans) == ["three", "twelve"]
