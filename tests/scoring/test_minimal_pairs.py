"""Minimal pairs: accuracy, ties and intervals."""

from __future__ import annotations

import json
from math import inf

import pytest
from scipy.stats import binomtest

import unmask
from unmask.errors import InputError
from unmask.scoring.registry import chosen
from unmask.scoring.score import RowShape, compare_pairs, share, wilson
from unmask.scoring.texts import Item, SentencePair

PAIRS = [
    {"sentence_good": "The dogs ran.", "sentence_bad": "The dog a ran.", "UID": "one", "phenomenon": "x"},
    {"sentence_good": "a cat sat", "sentence_bad": "cat a sat", "UID": "one", "phenomenon": "x"},
    {"sentence_good": "a cat sat", "sentence_bad": "a cat sat", "UID": "two", "linguistics_term": "x"},
    {"sentence_good": "a cat", "sentence_bad": "", "UID": "two"},
]


def test_accuracy_by_set_and_phenomenon(pieces):
    found = unmask.score(minimal_pairs=PAIRS, score="pll,energy_norm,any_order", model=pieces)
    right = [float(row["good_pll"] > row["bad_pll"]) for row in found.rows[:2]]
    assert [row["pll_correct"] for row in found.rows] == [*right, 0.5, None]
    assert [row["energy_norm_correct"] for row in found.rows] == [*right, 0.5, None]
    of_pll = {(row["level"], row["name"]): row for row in found.accuracy if row["score"] == "pll"}
    assert of_pll["set", "one"]["accuracy"] == sum(right) / 2
    assert of_pll["set", "two"] | {"low": 0, "high": 0} == {
        "score": "pll", "level": "set", "name": "two", "accuracy": 0.5, "low": 0, "high": 0, "pairs": 1, "ties": 1, "unscored": 1,
    }  # fmt: skip
    assert of_pll["phenomenon", "x"]["pairs"] == 3
    assert of_pll["all", "all"]["accuracy"] == pytest.approx((sum(right) + 0.5) / 3)
    assert len(found.to_frame()) == 3 * 4 and "3 pairs" not in repr(found)


def test_identical_sentences_tie_by_every_score(pieces):
    same = [{"sentence_good": "the unplayed dog sat", "sentence_bad": "the unplayed dog sat"}]
    names = "pll,pll_word,left_to_right,confident,margin,open"
    sampled = [unmask.AnyOrder(exact_tokens=2, orders=4), unmask.OrderBounds(exact_tokens=2, orders=4)]
    found = unmask.score(minimal_pairs=same, score=[*names.split(","), *sampled], model=pieces)
    assert all(found.rows[0][f"{name}_correct"] == 0.5 for name in found.scores)


@pytest.mark.parametrize(("good", "bad", "correct"), [(-1.0, -2.0, 1.0), (-inf, -1.0, 0.0), (-1.0, -inf, 1.0), (-inf, -inf, 0.5)])
def test_two_impossible_sentences_tie(good, bad, correct):
    pair = SentencePair(Item("a dog"), (Item("a cat"),), "animals")
    rows = [{"pll": value, "reason": None} for value in (good, bad)]
    assert compare_pairs([pair], rows, RowShape(chosen("pll"))).rows[0]["pll_correct"] == correct


@pytest.mark.parametrize(("right", "n"), [(0, 5), (7, 10), (300, 300), (151, 300)])
def test_wilson_interval(right, n):
    truth = binomtest(right, n).proportion_ci(0.95, "wilson")
    assert wilson(right, n) == pytest.approx((truth.low, truth.high), abs=1e-9)


def test_share_of_nothing():
    assert share([None, None]) == {"accuracy": None, "low": None, "high": None, "pairs": 0, "ties": 0, "unscored": 2}


def test_files_and_folders(pieces, tmp_path):
    lines = [json.dumps({key: value for key, value in pair.items() if key.startswith("sentence")}) for pair in PAIRS[:3]]
    (tmp_path / "agreement.jsonl").write_text("\n".join(lines[:2]) + "\n\n")
    (tmp_path / "islands.jsonl").write_text(lines[2])
    found = unmask.score(minimal_pairs=tmp_path, model=pieces)
    assert [row["set"] for row in found.rows] == ["agreement", "agreement", "islands"]
    again = unmask.score(minimal_pairs=[tmp_path / "agreement.jsonl", str(tmp_path / "islands.jsonl")], model=pieces)
    assert again.accuracy == found.accuracy


@pytest.mark.parametrize("names", [("good", "bad"), ("grammatical", "ungrammatical"), ("acceptable", "unacceptable")])
def test_other_names_of_the_two_sentences(pieces, tmp_path, names):
    file = tmp_path / "pairs.csv"
    file.write_text(f"item,{names[1]},{names[0]}\n1,cat a sat,a cat sat\n")
    (row,) = unmask.score(minimal_pairs=file, model=pieces).rows
    assert (row["sentence_good"], row["sentence_bad"]) == ("a cat sat", "cat a sat")
    file.write_text("right,wrong\na cat sat,cat a sat\n")
    with pytest.raises(
        InputError, match=r"fields are right, wrong\): rename two to sentence_good and sentence_bad; or good and bad"
    ):
        unmask.score(minimal_pairs=file, model=pieces)
    file.write_text(f"{names[0]}\na cat sat\n")
    with pytest.raises(InputError, match=f"line 2 has no field '{names[1]}'"):
        unmask.score(minimal_pairs=file, model=pieces)


def test_a_missing_key_is_told_with_its_line(pieces, tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"sentence_good": "a cat", "sentence_bad": "cat a"}\n{"sentence_good": "a cat", "bad": "cat a"}\n')
    with pytest.raises(InputError, match="line 2 has no field 'sentence_bad'"):
        unmask.score(minimal_pairs=file, model=pieces)
    with pytest.raises(InputError, match="does not exist"):
        unmask.score(minimal_pairs=tmp_path / "nowhere.jsonl", model=pieces)


EWOK = {
    "Domain": "social-relations", "ConceptA": "dog", "ConceptB": "cat", "ContextType": "direct",
    "Context1": "The dog ran.", "Context2": "The cat ran.", "Target1": "A dog sat.", "Target2": "A cat sat.",
}  # fmt: skip
BOXES = {"input_prefix": "The dog sat. The dog", "options": [" sat.", " ran.", " walks."], "numops": 2}


def test_ewok_files_are_read_as_they_are(pieces, tmp_path):
    (tmp_path / "social.jsonl").write_text(json.dumps(EWOK) + "\n")
    found = unmask.score(minimal_pairs=tmp_path, score="pll,energy_norm", model=pieces)
    items = [{"before": EWOK[context], "target": EWOK["Target1"]} for context in ("Context1", "Context2")]
    good, bad = unmask.score(items, "pll", model=pieces)
    [row] = found.rows
    assert (row["good_pll"], row["bad_pll"]) == (good["pll"], bad["pll"]) != (None, None)
    assert row["set"] == "social-relations" and row["sentence_bad"] == "The cat ran. A dog sat."
    assert row["pll_correct"] == row["energy_norm_correct"] == float(good["pll"] > bad["pll"])


def test_entity_tracking_files_are_read_as_they_are(pieces, tmp_path):
    """The first option is the right one, and has to beat all others; boxes with nothing in them are left out."""
    empty = BOXES | {"options": [" nothing.", " ran."]}
    turned = BOXES | {"options": BOXES["options"][::-1]}
    (tmp_path / "regular.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (BOXES, empty, turned)))
    found = unmask.score(minimal_pairs=tmp_path / "regular.jsonl", score="pll,energy_norm", model=pieces)
    items = [{"before": BOXES["input_prefix"], "target": option} for option in BOXES["options"]]
    scored = [row["pll"] for row in unmask.score(items, "pll", model=pieces)]
    assert [row["set"] for row in found.rows] == ["regular_2_ops"] * 2
    for row, (good, *others) in zip(found.rows, (scored, scored[::-1]), strict=True):
        assert (row["good_pll"], row["bad_pll"]) == (good, max(others))
        assert row["pll_correct"] == row["energy_norm_correct"] == float(good > max(others))
        assert row["bad_energy_norm"] == pytest.approx(-max(others))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (EWOK | {"Target1": None}, "'target' is None, not text"),
        ({key: value for key, value in EWOK.items() if key != "Context2"}, "'Context2' is None, not text"),
        (BOXES | {"options": [" sat."]}, "'options' is .*: give a list of two texts or more, the right one first"),
        ({"options": [" sat.", " ran."]}, "'input_prefix' is None, not text"),
    ],
)
def test_wrong_lines_of_published_files(pieces, line, message):
    with pytest.raises(InputError, match=message):
        unmask.score(minimal_pairs=[line], model=pieces)
