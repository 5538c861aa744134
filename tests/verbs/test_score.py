"""What `score` and `minimal_pairs` say and show of their numbers, beside the numbers themselves."""

import sys
from dataclasses import replace
from math import hypot

import pytest

import unmask
from unmask.verbs import score as verb
from unmask.verbs.minimal_pairs import PairScores

TEXTS = ["the cat sat .", "the dog dog ."]
SCORES = "pll,energy_raw,energy_norm,left_to_right"


def with_rows(scores, *values):
    """The same result with other values of its only score, one for each text."""
    (score,) = scores.shape.scores
    rows = [{**row, score.name: value} for row, value in zip(scores.rows, values, strict=True)]
    return replace(scores, scored=replace(scores.scored, in_memory=tuple(rows), noted=None))


@pytest.mark.parametrize("rows", ["texts", "nested"])
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[::-1]])
def test_the_better_of_two_texts_is_the_one_with_the_higher_score_or_the_lower_energy(
    tiny, texts, rows
):
    scores = unmask.score(texts, SCORES, model=tiny, rows=rows)
    first, second = scores.rows
    higher = {"pll", "left_to_right"}
    expected = []
    for name in SCORES.split(","):
        first_is_better = (first[name] > second[name]) == (name in higher)
        better = "first" if first_is_better else "second"
        direction = "higher is better" if name in higher else "lower is better"
        difference = f"{abs(first[name] - second[name]):.3f}"
        expected.append(f"{name}: the {better} text is better by {difference} nats ({direction})")
    assert scores.verdict() == expected
    assert scores.summary().splitlines()[-4:] == expected
    assert scores.to_dict()["verdict"] == expected


def test_an_energy_that_is_minus_a_score_agrees_with_it(tiny):
    """energy_norm is -pll: where the direction were ignored, the winners would differ."""
    of_pll, of_energy = unmask.score(TEXTS, "pll,energy_norm", model=tiny).verdict()
    assert of_pll.removeprefix("pll: ").replace("higher", "lower") == of_energy.removeprefix(
        "energy_norm: "
    )


def test_equal_texts_are_equal_and_a_difference_that_no_table_shows_is_said_so(tiny):
    same = unmask.score([TEXTS[0]] * 2, "pll,energy_raw", model=tiny)
    assert same.verdict() == [
        "pll: the two texts are equal",
        "energy_raw: the two texts are equal",
    ]
    scores = unmask.score(TEXTS, "pll", model=tiny)
    assert with_rows(scores, -3.0, -3.0004).verdict() == [
        "pll: the two texts differ by less than 0.0005 nats"
    ]
    assert "first text is better by 0.001 nats" in with_rows(scores, -3.0, -3.0006).verdict()[0]


def test_a_text_without_a_score_is_not_compared(tiny):
    scores = unmask.score(["the cat sat .", ""], "pll,energy_raw", model=tiny)
    assert scores.verdict() == [
        "pll: the second text has none",
        "energy_raw: the second text has none",
    ]
    assert scores.missing == {2: "the text is empty"}
    assert scores.complete
    assert scores.notices() == ["1 text lacks a score, the first is text 2: the text is empty"]
    assert not unmask.score([""], model=tiny).complete
    assert not unmask.score(["a cat", "a [MASK]"], model=tiny).complete


def test_sampled_scores_within_two_standard_errors_are_not_significantly_different(tiny):
    sampled = unmask.AnyOrder(exact_tokens=0, orders=4)
    scores = unmask.score(TEXTS, sampled, model=tiny)
    first, second = scores.rows
    error = hypot(first["any_order_se"], second["any_order_se"])
    assert error > 0
    near = with_rows(scores, -3.0, -3.0 - 1.9 * error).verdict()[0]
    assert f"with a standard error of {error:.3f}: not a significant difference" in near
    far = with_rows(scores, -3.0, -3.0 - 2.1 * error).verdict()[0]
    assert far.endswith(f"with a standard error of {error:.3f}")
    exact = unmask.score(TEXTS, unmask.AnyOrder(exact_tokens=10), model=tiny)
    assert "standard error" not in exact.verdict()[0]


def test_two_texts_are_compared_and_other_numbers_of_rows_are_not(tiny):
    assert unmask.score(TEXTS[:1], model=tiny).verdict() == []
    assert unmask.score([*TEXTS, "a cat"], model=tiny).verdict() == []
    assert unmask.score(["cat", "dog"], model=tiny, rows="tokens").verdict() == []


def test_a_folder_says_what_memory_says(tiny_folder, tmp_path):
    in_memory = unmask.score(TEXTS, SCORES, model=tiny_folder, rows="nested")
    in_folder = unmask.score(TEXTS, SCORES, model=tiny_folder, rows="nested", out=tmp_path / "run")
    assert in_folder.view()["tables"] == in_memory.view()["tables"]
    assert in_folder.summary() == in_memory.summary()
    assert in_folder.notices() == [f"rows are in {tmp_path / 'run' / 'scores.jsonl'}"]


def test_tables_hold_the_numbers_of_the_rows(tiny):
    scores = unmask.score(TEXTS, "pll,any_order", model=tiny, rows="nested")
    first, second, difference = scores.tables()
    assert [first.title, second.title] == TEXTS
    for table, row in zip((first, second), scores.rows, strict=True):
        assert [cells[1] for cells in table.rows] == [row["pll"], row["any_order"]]
        assert [cells[2] for cells in table.rows] == [
            row["pll"] / row["length"],
            row["any_order"] / row["length"],
        ]
        assert [cells[3] for cells in table.shown()] == ["", "exact"]
    assert sum(cells[1] for cells in difference.rows) == pytest.approx(
        scores[0]["pll"] - scores[1]["pll"]
    )
    (table,) = unmask.score(TEXTS, model=tiny).tables()
    assert [column.head for column in table.columns] == [
        *("text", "item", "length", "unknown", "pll")
    ]


@pytest.mark.parametrize("kept", [False, True])
def test_the_first_rows_of_many_are_shown(tiny_folder, tmp_path, monkeypatch, kept):
    monkeypatch.setattr(verb, "MOST_SHOWN", 2)
    out = tmp_path / "run" if kept else None
    scores = unmask.score([*TEXTS, "a cat"], model=tiny_folder, out=out)
    (table,) = scores.tables()
    assert [row[0] for row in table.rows] == TEXTS
    assert scores.about()[1] == "the first 2 rows are shown"
    assert "rows" not in vars(scores.scored), "what is shown needs the first rows only"
    assert len(scores.rows) == 3
    assert len(unmask.score(TEXTS, model=tiny_folder).about()) == 1


def test_rows_that_went_to_a_function_are_not_shown_and_what_lacks_a_score_is_said(tiny):
    taken = []
    scores = unmask.score(["the cat", "a [MASK]"], model=tiny, sink=taken.append)
    assert len(taken) == 2
    assert scores.tables() == scores.verdict() == []
    assert scores.missing == {2: taken[1]["reason"]}
    assert not scores.complete


@pytest.mark.parametrize(
    ("right", "n", "verdict"),
    [
        (20, 20, "significantly more often right than chance"),
        (0, 20, "significantly less often right than chance"),
        (11, 20, "not significantly different from chance"),
        (2, 2, "not significantly different from chance"),
    ],
)
def test_pairs_are_compared_with_chance(tiny, right, n, verdict):
    good, bad = TEXTS
    (row,) = unmask.score([good], model=tiny).rows
    (other,) = unmask.score([bad], model=tiny).rows
    if row["pll"] < other["pll"]:
        good, bad = bad, good
    pairs = [{"good": good, "bad": bad}] * right + [{"good": bad, "bad": good}] * (n - right)
    result = unmask.minimal_pairs(pairs, tiny, score="pll,energy_norm")
    assert result.verdict() == [f"pll: {verdict}", f"energy_norm: {verdict}"]
    (table,) = result.tables()
    name, n_pairs, n_ties, (share, low, high), of_energy = table.rows[-1]
    assert (name, n_pairs, n_ties, share) == ("all pairs", n, 0, right / n)
    assert of_energy == (share, low, high)
    assert low <= share <= high


@pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
def test_numbers_of_pairs_that_differ_between_scores_are_both_shown(tiny):
    """A word that the model does not know has no left_to_right."""
    pairs = [{"good": TEXTS[0], "bad": TEXTS[1]}, {"good": "the cat", "bad": "the zebra"}]
    result = unmask.minimal_pairs(pairs, tiny, score="pll,left_to_right")
    assert [row["n_pairs"] for row in result.accuracy if row["level"] == "all"] == [2, 1]
    assert result.tables()[0].rows[-1][:3] == ["all pairs", "1 to 2", 0]
    assert len(result.missing) == 1


def test_pairs_without_scores_are_said_so(tiny):
    result = unmask.minimal_pairs([{"good": "", "bad": ""}], tiny)
    assert isinstance(result, PairScores)
    assert result.verdict() == ["pll: no pair has it"]
    assert result.tables()[0].shown()[-1] == ["all pairs", "0", "0", "-"]
    assert not result.complete
    assert result.notices() == ["1 pair lacks a score, the first is pair 1: the text is empty"]


@pytest.mark.parametrize("rows", ["texts", "words", "tokens", "nested"])
def test_rows_in_memory_need_no_pandas_and_no_pyarrow(tiny, monkeypatch, rows):
    texts = [{"text": text, "n": n} for n, text in enumerate(TEXTS)]
    expected = unmask.score(texts, model=tiny, rows=rows)
    names = list(expected.to_frame())
    with monkeypatch.context() as patch:
        for module in ("pandas", "pyarrow"):
            patch.setitem(sys.modules, module, None)
        scores = unmask.score(texts, model=tiny, rows=rows)
        assert scores._repr_html_() == expected._repr_html_()
        assert list(scores.rows[0]) == list(scores.shape.types) == names
    assert scores.shape.columns.names == names
