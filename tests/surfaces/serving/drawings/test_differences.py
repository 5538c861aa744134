"""The table beside another model: numbers of both, and the first minus the second."""

import pytest

from unmask.common.formats import nats
from unmask.surfaces.serving.drawings.differences import (
    LEGEND_OF_DASH,
    LEGEND_OF_INFINITIES,
    LISTED,
    differences,
)
from unmask.surfaces.serving.drawings.mutants import TOLD_DECIMALS
from unmask.surfaces.serving.limits import MOST_MUTANTS

MODELS = ("one", "another")
MINUS = "difference: one minus another"


def table_of(first, second):
    told = [{"by": "nats of texts", "values": values} for values in (first, second)]
    return differences(MODELS, told)["table"]


def test_rows_are_those_of_both_models_and_their_difference():
    table = table_of({"a": -1.25, "b": -2.0}, {"b": -1.5, "c": -3.0})
    assert table["title"] == "Differences: nats of texts"
    heads = [column["head"] for column in table["columns"]]
    assert heads == ["what", "one", "another", "difference"]
    expected = [["a", -1.25, None, None], ["b", -2.0, -1.5, -0.5], ["c", None, -3.0, None]]
    assert table["rows"] == expected
    assert table["shown"][0] == ["a", "-1.250", "-", "-"]
    assert table["shown"][1] == ["b", *map(nats, (-2.0, -1.5, -0.5))]
    assert table["notes"] == [MINUS, LEGEND_OF_DASH]


def test_without_a_dash_there_is_no_legend():
    assert table_of({"a": 1}, {"a": 2.5})["notes"] == [MINUS]
    assert table_of({"a": None}, {"a": 2.5})["notes"] == [MINUS, LEGEND_OF_DASH]
    assert table_of({"a": "NaN"}, {"a": 2.5})["notes"] == [MINUS, LEGEND_OF_DASH]


def test_no_more_rows_than_are_listed_those_of_the_first_model_first():
    first = {str(n): float(n) for n in range(LISTED + 5)}
    table = table_of(first, {"other": 1.0})
    assert [row[0] for row in table["rows"]] == list(first)[:LISTED]
    assert table["notes"][-1] == f"the first {LISTED} of {LISTED + 6}, in the order of one"
    shorter = dict(list(first.items())[: LISTED - 1])
    table = table_of(shorter, {"other": 1.0})
    assert [row[0] for row in table["rows"]] == [*shorter, "other"]
    assert table["notes"] == [MINUS, LEGEND_OF_DASH], "all rows are in the table"


def test_models_that_told_different_numbers_are_not_compared(client):
    told = [{"by": by, "values": {"a": -1.5}} for by in ("nats", "scores, in tokens")]
    answer = client.post("/api/differences", json={"models": list(MODELS), "told": told})
    assert answer.status_code == 422
    assert "nats and scores, in tokens" in answer.json()["error"]


def test_infinities_are_words_in_json():
    table = table_of({"a": "-Infinity", "b": "-Infinity"}, {"a": 0.0, "b": "-Infinity"})
    assert table["shown"] == [["a", "-inf", "0.000", "-inf"], ["b", "-inf", "-inf", "-"]]
    assert table["notes"] == [MINUS, LEGEND_OF_INFINITIES]
    assert LEGEND_OF_INFINITIES == "two equal infinities have no difference"
    opposite = table_of({"a": "Infinity"}, {"a": "-Infinity"})
    assert opposite["shown"] == [["a", "inf", "-inf", "inf"]]
    assert opposite["notes"] == [MINUS]


def test_the_interface_answers_with_the_table(client):
    told = [{"by": "nats", "values": {"a": value}} for value in (-1.5, -1.0)]
    body = {"models": list(MODELS), "told": told}
    answer = client.post("/api/differences", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == differences(MODELS, told)


@pytest.mark.parametrize(
    "wrong",
    [
        {"models": ["one"]},
        {"told": [{"by": "nats", "values": {}}]},
        {"told": [{"by": "nats", "values": {"a": "much"}}] * 2},
        {"told": [{"by": "nats", "values": {}, "more": 1}] * 2},
    ],
)
def test_a_request_that_is_not_one_is_refused(client, wrong):
    told = [{"by": "nats", "values": {"a": -1.5}}] * 2
    answer = client.post("/api/differences", json={"models": list(MODELS), "told": told} | wrong)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_all_mutants_of_a_long_sequence_are_taken(client):
    """As many of each model as a question may have; their numbers are those of `drawn.told`."""
    values = {f"A{n}C": round(-n / 7, TOLD_DECIMALS) for n in range(MOST_MUTANTS)}
    told = [{"by": "nats", "values": values}] * 2
    answer = client.post("/api/differences", json={"models": list(MODELS), "told": told})
    assert answer.status_code == 200, answer.text
