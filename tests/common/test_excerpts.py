"""Long texts are cut around their blanks, and spans stay on their letters."""

from hypothesis import given
from hypothesis import strategies as st

from unmask.common.excerpts import around_blanks, excerpt


def test_a_text_without_spans_is_cut_to_its_beginning():
    assert excerpt("ACDEFGHIKL", [], 20) == ("ACDEFGHIKL", ())
    assert excerpt("ACDEFGHIKL" * 9, [], 21) == ("ACDEFGHIK…", ())


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
