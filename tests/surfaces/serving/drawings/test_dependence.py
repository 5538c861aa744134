"""Arcs, lists and sentences of a dependence against its matrix and the joints of its pairs."""

from itertools import combinations
from types import SimpleNamespace

import pytest

import unmask
from unmask.common.formats import nats, percent_at_least
from unmask.joints.incompatibility import incompatibility
from unmask.joints.pair_information import PAIRS_AT_ONCE
from unmask.surfaces.serving.drawings import dependence as drawings
from unmask.surfaces.serving.drawings.dependence import StrongestJoints, drawn_dependence
from unmask.surfaces.serving.texts import SENTENCE, SEQUENCE

TEXT = "the cat sat on the mat ."


def drawn(tiny, nouns=SENTENCE, text=TEXT, **options):
    """A dependence, its drawing, and the joint of every pair."""
    strongest, joints = StrongestJoints(), {}

    def look(first, second, joint):
        joints[first, second] = joint
        strongest.look(first, second, joint)

    found = unmask.dependence(text, tiny, look=look, **options)
    return found, drawn_dependence(found, strongest, tiny, nouns), joints


@pytest.mark.parametrize("others", ["text", "masked"])
def test_arcs_are_as_wide_as_the_numbers_of_their_pairs(tiny, others, monkeypatch):
    monkeypatch.setattr(drawings, "FAR", 0.5)  # between those of this model
    monkeypatch.setattr(drawings, "WIDEST", 0.1)
    found, figure, joints = drawn(tiny, others=others)
    names = ["the", "cat", "sat", "on", "the (2)", "mat", "."]
    assert [piece["name"] for piece in figure["pieces"]] == names
    pairs = figure["pairs"]
    assert [(pair["i"], pair["j"]) for pair in pairs] == [pair[:2] for pair in found.pairs()]
    assert set(joints) == set(combinations(range(7), 2))
    for pair, (i, j, value) in zip(pairs, found.pairs(), strict=True):
        assert value == pytest.approx(joints[i, j].mutual_information(), abs=1e-12)
        assert pair["share"] == min(1.0, value / 0.1)
        assert pair["off"] == (incompatibility(joints[i, j].tables) > 0.5)
        assert pair["name"] == f"{names[i]} – {names[j]}"
        assert pair["title"] == f"{pair['name']}: {nats(value)} nats"
        held = percent_at_least(float(found.mass[i, j]))
        assert pair["caption"] == f"{nats(value)} nats; {held} of the mass held"
        assert pair["key"] == f"{i + 1},{j + 1}"
    assert {pair["off"] for pair in pairs} == {True, False}
    assert any(pair["share"] < 1 for pair in pairs)


def test_the_legend_says_where_the_width_of_arcs_ends(tiny, monkeypatch):
    found, figure, _ = drawn(tiny)
    _, _, most = found.pairs()[0]
    assert most < drawings.WIDEST
    width = f"the wider, the more mutual information: up to {nats(most)} nats here"
    assert figure["width"] == width
    monkeypatch.setattr(drawings, "WIDEST", most / 2)
    _, figure, _ = drawn(tiny)
    assert figure["width"] == f"{width} (full width from {nats(most / 2)} nats)"


def test_the_list_and_the_file_are_tables_of_the_result(tiny):
    found, figure, _ = drawn(tiny)
    names = [piece["name"] for piece in figure["pieces"]]
    table = figure["strongest"]
    assert [column["head"] for column in table["columns"]] == ["words", "nats", "mass held"]
    strongest = found.pairs()[: drawings.LISTED_PAIRS]
    assert table["shown"] == [
        [f"{names[i]} – {names[j]}", nats(value), percent_at_least(float(found.mass[i, j]))]
        for i, j, value in strongest
    ]
    assert [pair["name"] for pair in figure["pairs"][: len(strongest)]] == [
        row[0] for row in table["shown"]
    ], "a row of the list is the pair with its number"
    rows = figure["table"]["rows"]
    positions = found.positions
    assert [row[2:5] for row in rows] == [
        [positions[i], positions[j], value] for i, j, value in found.pairs()
    ]
    assert figure["told"]["values"] == {
        f"{names[i]} – {names[j]}": value for i, j, value in found.pairs()
    }


def test_the_strongest_pairs_alone_have_an_arc_and_it_says_so(tiny, monkeypatch):
    monkeypatch.setattr(drawings, "DRAWN_PAIRS", 3)
    found, figure, _ = drawn(tiny)
    assert [(pair["i"], pair["j"]) for pair in figure["pairs"]] == [
        pair[:2] for pair in found.pairs()[:3]
    ]
    assert figure["drawn"] == "the 3 strongest of 21 pairs"
    assert figure["part"] == ""
    _, figure, _ = drawn(tiny, text="the [MASK] sat [MASK] .")
    assert figure["drawn"] == ""


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
def test_of_pairs_with_one_number_the_first_of_the_list_have_an_arc(turned, monkeypatch):
    """A row of the list stands for the pair of the same number; below 0 are rounding errors."""
    monkeypatch.setattr(drawings, "DRAWN_PAIRS", 3)
    pairs = list(combinations(range(4), 2))
    numbers = [0.0, -1e-17, 0.0, 1e-17, 0.0, -1e-18]
    strongest = StrongestJoints()
    looked_at = list(zip(pairs, numbers, strict=True))
    for (i, j), number in reversed(looked_at) if turned else looked_at:
        joint = SimpleNamespace(mutual_information=lambda number=number: number)
        strongest.look(i, j, joint)
    assert set(strongest.joints) == {(0, 1), (0, 2), (1, 2)}


def test_what_is_measured_so_far_is_a_part(tiny):
    figures = []
    strongest = StrongestJoints()

    def so_far(found):
        figures.append(drawn_dependence(found, strongest, tiny, SENTENCE))

    unmask.dependence(TEXT, tiny, look=strongest.look, partial=so_far)
    most = PAIRS_AT_ONCE["cpu"]
    assert [figure["measured"] for figure in figures] == [*range(most, 21, most), 21]
    assert figures[0]["part"] == f"{most} of 21 pairs"
    assert figures[-1]["part"] == ""
    assert len(figures[0]["table"]["rows"]) == most


def test_residues_and_blanks_have_numbers(tiny):
    _, figure, _ = drawn(tiny, SEQUENCE, text="the cat sat")
    assert [piece["name"] for piece in figure["pieces"]] == ["the1", "cat2", "sat3"]
    _, figure, _ = drawn(tiny, SEQUENCE, text="the [MASK] sat [MASK]")
    assert [piece["name"] for piece in figure["pieces"]] == ["residue 2", "residue 4"]
    _, figure, _ = drawn(tiny, text="the [MASK] sat [MASK]")
    assert [piece["name"] for piece in figure["pieces"]] == ["blank 1", "blank 2"]
    assert figure["strongest"]["columns"][0]["head"] == "words"


def test_pieces_of_one_word_have_its_name(english):
    _, figure, _ = drawn(english, text="She drank tea.", candidates=4)
    named = [piece["name"] for piece in figure["pieces"] if piece["name"].startswith("drank (")]
    assert len(named) > 1
    words = {piece["word"] for piece in figure["pieces"] if piece["name"] in named}
    assert len(words) == 1
