"""What the terminal shows of numbers and long texts."""

from __future__ import annotations

from math import log

import pytest

from unmask.cli.terminal import excerpt, nats, percent, short_percent


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


def test_a_short_text_stays_whole():
    assert excerpt("a cat sat", [(2, 5)], 20).plain == "a cat sat"


def test_a_long_text_keeps_the_words_around_its_blanks():
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    spans = [(text.index(w), text.index(w) + len(w)) for w in ("three", "twelve")]
    shown = excerpt(text, spans, 44)
    assert len(shown.plain) <= 44 and "three" in shown.plain and "twelve" in shown.plain and "…" in shown.plain
    assert all(word in text.split() for word in shown.plain.replace("…", " ").split())
    assert sorted(shown.plain[span.start : span.end] for span in shown.spans) == ["three", "twelve"]
