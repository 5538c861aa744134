"""Minimal pairs: accuracy, ties and intervals."""

import gzip
import json
from math import inf

import pytest

import unmask
from support.command_runner import invoke
from support.named_scores import named_scores
from unmask.common.errors import InputError, UnmaskWarning
from unmask.scoring.items import Item
from unmask.scoring.minimal_pairs import compare_pairs, share
from unmask.scoring.row_shape import RowShape
from unmask.scoring.scored_rows import ScoredRows
from unmask.scoring.sentence_pairs import SentencePair

PAIRS = [
    {
        "sentence_good": "The dogs ran.",
        "sentence_bad": "The dog a ran.",
        "UID": "one",
        "phenomenon": "x",
    },
    {"sentence_good": "a cat sat", "sentence_bad": "cat a sat", "UID": "one", "phenomenon": "x"},
    {
        "sentence_good": "a cat sat",
        "sentence_bad": "a cat sat",
        "UID": "two",
        "linguistics_term": "x",
    },
    {"sentence_good": "a cat", "sentence_bad": "", "UID": "two"},
]


def test_accuracy_by_set_and_phenomenon(pieces):
    scores = unmask.minimal_pairs(PAIRS, score="pll,energy_norm,any_order", model=pieces)
    right = [float(row["good_pll"] > row["bad_pll"]) for row in scores.rows[:2]]
    assert [row["pll_correct"] for row in scores.rows] == [*right, 0.5, None]
    assert [row["energy_norm_correct"] for row in scores.rows] == [*right, 0.5, None]
    of_pll = {(row["level"], row["name"]): row for row in scores.accuracy if row["score"] == "pll"}
    assert of_pll["set", "one"]["accuracy"] == sum(right) / 2
    assert of_pll["set", "two"] | {"low": 0, "high": 0} == {
        "score": "pll",
        "level": "set",
        "name": "two",
        "accuracy": 0.5,
        "low": 0,
        "high": 0,
        "n_pairs": 1,
        "n_ties": 1,
        "n_unscored": 1,
    }
    assert of_pll["phenomenon", "x"]["n_pairs"] == 3
    assert of_pll["all", "all"]["accuracy"] == pytest.approx((sum(right) + 0.5) / 3)
    assert len(scores.to_frame()) == 3 * 4
    assert "3 pairs" not in repr(scores)


def test_identical_sentences_tie_by_every_score(pieces):
    same = [{"sentence_good": "the unplayed dog sat", "sentence_bad": "the unplayed dog sat"}]
    names = "pll,pll_word,left_to_right,right_to_left"
    sampled = unmask.AnyOrder(exact_tokens=2, orders=4)
    scores = unmask.minimal_pairs(same, score=[*names.split(","), sampled], model=pieces)
    assert all(scores.rows[0][f"{name}_correct"] == 0.5 for name in scores.scores)


@pytest.mark.parametrize(
    ("good", "bad", "correct"),
    [(-1.0, -2.0, 1.0), (-inf, -1.0, 0.0), (-1.0, -inf, 1.0), (-inf, -inf, 0.5)],
)
def test_two_impossible_sentences_tie(good, bad, correct):
    pair = SentencePair(Item("a dog"), Item("a cat"), "animals", None, {})
    rows = [{"pll": value, "reason": None} for value in (good, bad)]
    scored = ScoredRows(RowShape(named_scores("pll")), tuple(rows))
    assert compare_pairs([pair], scored).rows[0]["pll_correct"] == correct


def test_share_of_nothing():
    assert share([None, None]) == {
        "accuracy": None,
        "low": None,
        "high": None,
        "n_pairs": 0,
        "n_ties": 0,
        "n_unscored": 2,
    }


def test_files_and_folders(pieces, tmp_path):
    lines = [
        json.dumps({key: value for key, value in pair.items() if key.startswith("sentence")})
        for pair in PAIRS[:3]
    ]
    (tmp_path / "agreement.jsonl").write_text("\n".join(lines[:2]) + "\n\n")
    (tmp_path / "islands.jsonl").write_text(lines[2])
    scores = unmask.minimal_pairs(tmp_path, model=pieces)
    assert [row["set"] for row in scores.rows] == ["agreement", "agreement", "islands"]
    again = unmask.minimal_pairs(
        [tmp_path / "agreement.jsonl", str(tmp_path / "islands.jsonl")], model=pieces
    )
    assert again.accuracy == scores.accuracy


def test_no_file_of_a_folder_is_left_out_without_a_word(pieces, tmp_path):
    lines = [
        json.dumps({key: value for key, value in pair.items() if key.startswith("sentence")}) + "\n"
        for pair in PAIRS[:3]
    ]
    (tmp_path / "a.jsonl").write_text(lines[0])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines[1].encode()))
    (tmp_path / "c.JSONL").write_text(lines[2])
    assert [row["set"] for row in unmask.minimal_pairs(tmp_path, model=pieces).rows] == [
        "a",
        "b",
        "c",
    ]
    (tmp_path / "d.csv").write_text("good,bad\na cat sat,cat a sat\n")
    (tmp_path / "README.md").write_text("about these pairs\n")
    with pytest.warns(
        UnmaskWarning, match=r"only .jsonl files are read, and 'd.csv' left out: name these"
    ):
        assert len(unmask.minimal_pairs(tmp_path, model=pieces).rows) == 3


@pytest.mark.parametrize(
    "names", [("good", "bad"), ("grammatical", "ungrammatical"), ("acceptable", "unacceptable")]
)
def test_other_names_of_the_two_sentences(pieces, tmp_path, names):
    file = tmp_path / "pairs.csv"
    file.write_text(f"item,{names[1]},{names[0]}\n1,cat a sat,a cat sat\n")
    (row,) = unmask.minimal_pairs(file, model=pieces).rows
    assert (row["sentence_good"], row["sentence_bad"]) == ("a cat sat", "cat a sat")
    file.write_text("right,wrong\na cat sat,cat a sat\n")
    with pytest.raises(
        InputError,
        match=(
            r"fields are right, wrong\): rename two to sentence_good and sentence_bad; or good"
            r" and bad"
        ),
    ):
        unmask.minimal_pairs(file, model=pieces)
    file.write_text(f"{names[0]}\na cat sat\n")
    with pytest.raises(InputError, match=f"line 2 has no field '{names[1]}'"):
        unmask.minimal_pairs(file, model=pieces)


def test_rows_say_which_sentence_is_good(pieces, pieces_folder, tmp_path):
    file = tmp_path / "agreement.csv"
    file.write_text("Good,Bad,condition\nThe dog sat.,The dog sit.,near\n")
    typed = [
        "minimal-pairs",
        str(file),
        "--model",
        str(pieces_folder),
        "--format",
        "csv",
    ]
    assert "near,agreement,,The dog sat.,The dog sit.," in invoke(typed).stdout
    assert invoke([*typed, "--out", str(tmp_path / "run")]).exit_code == 0
    written = (tmp_path / "run" / "scores.csv").read_text().splitlines()
    assert written[0].startswith("item,id,pair_number,sentence,set,condition,text,")
    assert [line.split(",")[2:6] for line in written[1:]] == [
        ["1", "good", "agreement", "near"],
        ["1", "bad", "agreement", "near"],
    ]


def test_options_of_texts_lead_to_score(pieces):
    for option, value in {"rows": "texts", "field": "good", "sink": print}.items():
        with pytest.raises(InputError, match=f"{option} is not an argument .*: use unmask.score$"):
            unmask.minimal_pairs(PAIRS, pieces, **{option: value})
    for old in ("minimal_pairs", "pairs"):
        with pytest.raises(InputError, match=f"{old} is not .*: use unmask.minimal_pairs$"):
            unmask.score(**{old: PAIRS}, model=pieces)
        with pytest.raises(InputError, match=f"{old} is not .*: did you mean data[?]$"):
            unmask.minimal_pairs(**{old: PAIRS}, model=pieces)


@pytest.mark.parametrize("function", [unmask.score, unmask.minimal_pairs])
def test_a_format_is_of_a_file(pieces, tmp_path, function):
    texts = ["a cat sat"] if function is unmask.score else PAIRS[:1]
    with pytest.raises(InputError, match="^format is used only with out: give out, or leave it"):
        function(texts, model=pieces, format="csv")
    function(texts, model=pieces, format="csv", out=tmp_path / "run")
    assert (tmp_path / "run" / "scores.csv").is_file()


def test_there_is_a_pair(pieces, tmp_path):
    file = tmp_path / "none.jsonl"
    file.write_text("\n")
    for nothing in ([], file):
        with pytest.raises(InputError, match="^data has no minimal pair: give at least one$"):
            unmask.minimal_pairs(nothing, pieces)
    with pytest.raises(InputError, match="^data 3 is not a file or a list of mappings: give one$"):
        unmask.minimal_pairs(3, pieces)


def test_the_command_prints_accuracies_pairs_or_json(pieces, pieces_folder, tmp_path):
    """Of files and folders by place, side by side."""
    good = {"sentence_good": "a cat sat", "sentence_bad": "cat a sat"}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.jsonl").write_text(json.dumps(good) + "\n")
    expected = unmask.minimal_pairs([good, good], pieces)
    typed = ["minimal-pairs", str(tmp_path / "one"), str(tmp_path / "two" / "two.jsonl")]
    typed += ["--model", str(pieces_folder), "--device", "cpu"]
    printed = invoke(typed).stdout
    assert "set one" in printed
    assert "set two" in printed
    assert "accuracy in %" in printed
    lines = [json.loads(line) for line in invoke([*typed, "--format", "jsonl"]).stdout.splitlines()]
    assert [line["good_pll"] for line in lines] == [row["good_pll"] for row in expected.rows]
    whole = json.loads(invoke([*typed, "--json"]).stdout)
    assert whole["rows"] == lines
    assert whole["accuracy"][-1]["n_pairs"] == 2
