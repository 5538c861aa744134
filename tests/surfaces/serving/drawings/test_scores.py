"""Bars of scores against the rows of the result that they are drawn from."""

import math

import pytest

import unmask
from unmask.common.formats import nats
from unmask.common.result_tables import NO_VALUE
from unmask.scoring.scored_batch import STOPPED
from unmask.surfaces.serving.drawings.scores import drawn_scores
from unmask.surfaces.serving.texts import SENTENCE, SEQUENCE

CAT = "the cat sat on the mat ."
DOG = "a dog sat on the mat under the tree ."
SCORES = ["pll", "left_to_right", "energy_raw", "energy_norm", "any_order"]


def nested(texts, score, tiny, **options):
    return unmask.score(texts, score, model=tiny, rows="nested", **options)


def heights(profiles):
    """The shares of all bars, text by text."""
    return [[bar["share"] for bar in one["bars"]] for one in profiles["profiles"]]


@pytest.mark.parametrize("unit", ["nats", "bits"])
@pytest.mark.parametrize("score", SCORES[:-1])
def test_a_bar_is_as_high_as_the_share_of_its_word(tiny, score, unit):
    scores = nested([CAT, DOG], [score], tiny, unit=unit)
    (column,) = [one.share_column for one in scores.shape.scores]
    drawn = drawn_scores(scores, SENTENCE)["profiles"][score]
    known = [[word[column] for word in row["words"]] for row in scores.rows]
    end = max(abs(value) for of_text in known for value in of_text)
    assert f"in {unit} (up to {nats(end)})" in drawn["legend"]
    assert drawn["legend"].startswith(f"{column}: the higher the bar, the more a word counts")
    for profile, row, values in zip(drawn["profiles"], scores.rows, known, strict=True):
        assert profile["text"] == row["text"]
        assert profile["scale"] == nats(end)
        bars = profile["bars"]
        assert [bar["texts"] for bar in bars] == [[word["word"]] for word in row["words"]]
        assert [bar["share"] * end for bar in bars] == pytest.approx(values)
        assert [bar["number"] for bar in bars] == [nats(value) for value in values]
        for bar, word in zip(bars, row["words"], strict=True):
            own = [one for one in row["tokens"] if one["word_number"] == word["word_number"]]
            numbers = [f"{one['token']} {nats(one[column])}" for one in own]
            assert bar["title"] == ", ".join(numbers)
    assert len({round(share, 3) for text in heights(drawn) for share in text}) > 4


@pytest.mark.parametrize("score", SCORES[:-1])
def test_what_counts_against_a_text_makes_it_worse(tiny, score):
    """The higher bars together are those of the text that the verdict calls worse."""
    for texts in ([CAT, DOG], [DOG, CAT]):
        scores = nested(texts, [score], tiny)
        drawn = drawn_scores(scores, SENTENCE)
        first, second = (sum(of_text) for of_text in heights(drawn["profiles"][score]))
        better = "first" if first < second else "second"
        assert f"the {better} text is better" in scores.verdict()[0]
        (aligned,) = heights(drawn["differences"][score])
        assert (sum(aligned) > 0) == (better == "first")
        (direction,) = [one.direction for one in scores.shape.scores]
        legend = drawn["differences"][score]["legend"]
        assert legend.endswith(f"Blue: for the first, by {score} ({direction}).")


@pytest.mark.parametrize("score", SCORES[:-1])
def test_two_texts_side_by_side_have_the_numbers_of_the_command(tiny, score):
    scores = nested([CAT, DOG], [score], tiny)
    drawn = drawn_scores(scores, SENTENCE)
    (profile,) = drawn["differences"][score]["profiles"]
    table = scores.tables()[-1]
    assert [bar["number"] for bar in profile["bars"]] == [row[1] for row in table.shown()]
    assert drawn["aligned"]["rows"] == [list(row) for row in table.rows]
    assert drawn["of_texts"] == len(scores.tables()) - 1 == 2
    for bar, row in zip(profile["bars"], scores.difference(), strict=True):
        tokens = [row["first_token"], row["second_token"]]
        assert bar["texts"] == [token or NO_VALUE for token in tokens]
        assert bar["differs"] == (tokens[0] != tokens[1])
        assert bar["title"] == f"{bar['texts'][0]} / {bar['texts'][1]}: {bar['number']}"
    assert any(NO_VALUE in bar["texts"] for bar in profile["bars"]), "the second text is longer"


def test_equal_texts_have_no_bars(tiny):
    drawn = drawn_scores(nested([CAT, CAT], ["pll", "energy_raw"], tiny), SENTENCE)
    for score in ("pll", "energy_raw"):
        assert heights(drawn["differences"][score]) == [[0.0] * 7]


def test_a_score_that_is_no_sum_has_no_bars(tiny):
    drawn = drawn_scores(nested([CAT, DOG], ["any_order", "pll"], tiny), SENTENCE)
    assert drawn["shown"] == ["pll"]
    assert list(drawn["profiles"]) == list(drawn["differences"]) == ["pll"]
    drawn = drawn_scores(nested([CAT, DOG], "any_order", tiny), SENTENCE)
    assert (drawn["shown"], drawn["differences"], drawn["aligned"]) == ([], {}, None)


def test_the_words_are_a_table_of_the_file(tiny):
    scores = nested([CAT, DOG], ["pll", "energy_raw"], tiny)
    table = drawn_scores(scores, SENTENCE)["words"]
    heads = [column["head"] for column in table["columns"]]
    assert heads == ["sentence", "word", "pll_surprisal", "energy_raw"]
    for number, row in enumerate(scores.rows, 1):
        values = [cells[2:] for cells in table["rows"] if cells[0] == number]
        assert [sum(column) for column in zip(*values, strict=True)] == pytest.approx(
            [-row["pll"], row["energy_raw"]]
        )


def test_residues_are_numbered_and_marked_where_two_sequences_differ(tiny):
    scores = nested(["the cat sat", "the dog sat on"], "pll", tiny)
    drawn = drawn_scores(scores, SEQUENCE)
    first, second = drawn["profiles"]["pll"]["profiles"]
    assert [bar["differs"] for bar in first["bars"]] == [False, True, False]
    assert [bar["differs"] for bar in second["bars"]] == [False, True, False, True]
    number = nats(scores.rows[0]["tokens"][1]["pll_surprisal"])
    assert first["bars"][1]["title"] == f"cat2: {number} nats"
    assert "; a word" not in drawn["profiles"]["pll"]["legend"]
    assert first["label"] == "pll of sequence 1, residue by residue"


def test_a_number_that_is_missing_is_a_dash(tiny):
    scores = nested([CAT, "the zebra sat ."], ["left_to_right", "pll"], tiny)
    drawn = drawn_scores(scores, SENTENCE)
    first, second = drawn["profiles"]["left_to_right"]["profiles"]
    assert None not in [bar["share"] for bar in first["bars"]]
    assert second["bars"], "it has its words"
    assert {bar["share"] for bar in second["bars"]} == {None}
    assert {bar["number"] for bar in second["bars"]} == {NO_VALUE}
    assert list(drawn["differences"]) == ["pll"]
    reason = scores.rows[1]["reason"]
    assert drawn["failed"] == [f"“the zebra sat .”: {reason}."]
    assert drawn["told"]["values"]["left_to_right, sentence 2"] is None
    assert drawn["part"] == "", "it was not stopped"


def test_an_infinite_number_is_a_bar_of_full_height(tiny):
    scores = nested([CAT], "pll", tiny)
    (row,) = scores.rows
    row["words"][1]["pll_surprisal"] = math.inf
    drawn = drawn_scores(scores, SENTENCE)["profiles"]["pll"]["profiles"][0]
    finite = [word["pll_surprisal"] for word in row["words"] if word["word"] != "cat"]
    assert drawn["scale"] == nats(max(finite))
    assert drawn["bars"][1]["share"] == 1.0
    assert drawn["bars"][1]["number"] == "inf"
    assert max(bar["share"] for bar in drawn["bars"]) == 1.0


def test_infinite_numbers_alone_end_their_scale(tiny):
    """Their bars have full height, which is not the height of 0."""
    scores = nested([CAT], "pll", tiny)
    for word in scores.rows[0]["words"]:
        word["pll_surprisal"] = math.inf
    drawn = drawn_scores(scores, SENTENCE)["profiles"]["pll"]
    assert {share for text in heights(drawn) for share in text} == {1.0}
    assert drawn["profiles"][0]["scale"] == "inf"
    assert "(up to inf)" in drawn["legend"]


def test_a_stopped_question_says_how_many_scores_there_are(tiny):
    scores = nested([CAT, DOG], ["pll", "any_order"], tiny)
    for row in scores.rows:
        row.update(any_order=None, reason=STOPPED)
    assert drawn_scores(scores, SENTENCE)["part"] == "2 of 4 scores"


def test_scores_of_the_first_text_alone_are_not_all(tiny):
    """Texts of other lengths are in other batches: the first may be done when it is stopped."""
    scores = nested([CAT, DOG], ["pll", "any_order"], tiny)
    scores.rows[1].update(pll=None, any_order=None, reason=STOPPED)
    assert drawn_scores(scores, SENTENCE)["part"] == "2 of 4 scores"
    one = nested([CAT], ["pll", "any_order"], tiny)
    one.rows[0].update(any_order=None, reason=STOPPED)
    assert drawn_scores(one, SENTENCE)["part"] == "1 of 2 scores"


def test_a_sequence_that_was_not_scored_marks_no_residue_of_the_other(tiny):
    scores = nested(["the cat sat", "half a pair \ud800"], "energy_raw", tiny)
    assert scores.rows[1]["reason"]
    assert not scores.rows[1]["tokens"]
    drawn = drawn_scores(scores, SEQUENCE)
    (profile,) = drawn["profiles"]["energy_raw"]["profiles"]
    assert [bar["differs"] for bar in profile["bars"]] == [False] * 3


def test_what_is_compared_beside_another_model_is_every_score_of_every_text(tiny):
    scores = nested([CAT, DOG], ["pll", "any_order"], tiny, unit="bits")
    told = drawn_scores(scores, SENTENCE)["told"]
    assert told["by"] == "scores, in bits"
    assert told["values"] == {
        f"{name}, sentence {number}": row[name]
        for name in ("pll", "any_order")
        for number, row in enumerate(scores.rows, 1)
    }
