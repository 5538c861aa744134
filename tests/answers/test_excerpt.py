"""What is shown of long texts: what stands around their blanks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unmask.formats import around_blanks, excerpt


def test_a_long_text_keeps_what_is_around_its_blanks():
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    spans = [(text.index(w), text.index(w) + len(w)) for w in ("three", "twelve")]
    shown, places = excerpt(text, spans, 44)
    assert len(shown) <= 44 and "…" in shown
    assert [shown[start:stop] for start, stop in places] == ["three", "twelve"]


def test_a_text_without_spaces_is_cut_around_its_blanks():
    text = "ACDEFGHIKL" * 20 + "[MASK]" + "MNPQRSTVWY" * 20 + "[MASK]" + "ACDEFGHIKL" * 20
    shown = around_blanks(text, 60)
    assert len(shown) <= 60 and shown.count("[MASK]") == 2 and shown.count("…") == 3
    assert "HIKL[MASK]MNPQ" in shown and "TVWY[MASK]ACDE" in shown


@given(st.text(st.sampled_from("ab "), min_size=1, max_size=200), st.data(), st.integers(20, 60))
def test_spans_stay_on_their_letters_and_the_width_is_kept(text, data, width):
    places = sorted(data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=3, unique=True)))
    spans = [(place, place + 1) for place in places]
    shown, there = excerpt(text, spans, width)
    assert [shown[a:b] for a, b in there] == [text[a:b] for a, b in spans]
    assert len(shown) <= max(width, 6 * len(spans) + 2)
