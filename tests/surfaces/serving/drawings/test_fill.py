"""The bars beside the map of two blanks, and what is pinned in one of them."""

from dataclasses import replace
from math import exp

import pytest
from numpy.testing import assert_allclose

import unmask
from unmask.surfaces.serving.drawings.fill import BARS, drawn_filling
from unmask.surfaces.serving.drawings.shapes import percent_of

TWO = "the [MASK] sat on the [MASK] ."
WHOLE = "the cat sat on the mat ."


def drawn(filling, model, cells=12):
    return drawn_filling(filling, model, "word", cells)


def columns_of(table):
    heads = [column["head"] for column in table["columns"]]
    return dict(zip(heads, zip(*table["rows"], strict=True), strict=True))


def test_bars_are_the_marginals_of_the_map(tiny):
    filling = unmask.fill(TWO, tiny, construction="balanced")
    pins = drawn(filling, tiny)["map"]["pins"]
    assert pins["pinned"] is None
    assert "pin one" in pins["note"]
    for t, of_blank in enumerate(pins["blanks"]):
        assert of_blank["title"] == f"Blank {t + 1}"
        marginal = filling.joint.marginal(t)
        likeliest = marginal.top(BARS)
        longest = likeliest["prob"].iloc[0]
        assert [bar["token"] for bar in of_blank["bars"]] == likeliest["token"].tolist()
        assert_allclose(
            [bar["now"] for bar in of_blank["bars"]], likeliest["prob"] / longest, atol=1e-4
        )
        assert [bar["text"] for bar in of_blank["bars"]] == list(map(percent_of, likeliest["prob"]))
        assert all(bar["before"] is None for bar in of_blank["bars"])
    table = columns_of(pins["table"])
    assert list(table) == ["blank", "token", "joint", "product"]
    assert sum(table["joint"]) == pytest.approx(2, abs=1e-5), "all tokens of both blanks"


@pytest.mark.parametrize("blank", [0, 1])
def test_a_pinned_word_gives_the_conditionals_of_the_joint_and_of_the_model(tiny, blank):
    free = unmask.fill(TWO, tiny, construction="pseudo_gibbs")
    word = free.completions[2].tokens[blank]
    filling = unmask.fill(TWO, tiny, construction="pseudo_gibbs", given={blank + 1: word})
    pins = drawn(filling, tiny)["map"]["pins"]
    joint = filling.joint
    ids = joint.tables.candidates
    place = [joint.tables.spelled(blank, i) for i in ids[blank].tolist()].index(word)
    token = int(ids[blank][place])
    assert pins["pinned"] == {"blank": blank, "id": token}
    row = joint.dense().exp().select(blank, place)
    expected = dict(zip(ids[1 - blank].tolist(), (row / row.sum()).tolist(), strict=True))
    marginal = dict(zip(ids[1 - blank].tolist(), joint.marginal(1 - blank).tolist(), strict=True))
    bars = pins["blanks"][1 - blank]["bars"]
    assert [bar["id"] for bar in bars] == sorted(expected, key=expected.get, reverse=True)[:BARS]
    longest = max(max(expected[bar["id"]], marginal[bar["id"]]) for bar in bars)
    for bar in bars:
        assert bar["now"] == pytest.approx(expected[bar["id"]] / longest, abs=1e-4)
        assert bar["before"] == pytest.approx(marginal[bar["id"]] / longest, abs=1e-4)
    assert pins["blanks"][1 - blank]["title"] == f"Blank {2 - blank}, given “{word}”"
    assert [bar["id"] for bar in pins["blanks"][blank]["bars"] if bar["pinned"]] == [token]
    table = columns_of(pins["table"])
    own = joint.tables.log_q[1 - blank].select(blank, place).exp().tolist()
    of_model = dict(zip(ids[1 - blank].tolist(), own, strict=True))
    spelled = {joint.tables.spelled(1 - blank, i): i for i in expected}
    assert_allclose(table["given"], [expected[spelled[one]] for one in table["token"]], atol=1e-6)
    assert_allclose(table["before"], [marginal[spelled[one]] for one in table["token"]], atol=1e-6)
    assert_allclose(table["model"], [of_model[spelled[one]] for one in table["token"]], atol=1e-6)
    assert table["given"][0] == pytest.approx(exp(filling.completions[0].log_prob), abs=1e-5)


@pytest.mark.parametrize("blank", [0, 1])
def test_the_map_is_without_the_pin(tiny, blank):
    """Its cells, its tokens and what stood there are the same, whatever is pinned."""
    free = unmask.fill(WHOLE, tiny, positions=[2, 6])
    pinned = unmask.fill(WHOLE, tiny, positions=[2, 6], given={blank + 1: "dog"})
    without = drawn(free, tiny, cells=3)["map"]
    within = drawn(pinned, tiny, cells=3)["map"]
    assert within["grid"] == without["grid"]
    assert within["table"] == without["table"]
    assert within["notes"] == [*without["notes"], "The map is without the pin."]
    assert any(head["stands"] for head in within["grid"]["rows"])
    assert drawn(free, tiny)["compared"] == []
    assert drawn(pinned, tiny)["compared"] == ["Constructions are compared without the pin."]


def test_a_word_that_is_not_a_candidate_is_not_drawn_as_pinned(tiny):
    known = unmask.fill(TWO, tiny, candidates=2).joint.marginal(0).tokens
    word = next(one for one in ("cat", "dog", "mat") if one not in known)
    filling = unmask.fill(TWO, tiny, candidates=2, given={1: word})
    assert filling.notes, "it says why"
    assert drawn(filling, tiny)["map"]["pins"]["pinned"] is None
    of_filling = drawn(filling, tiny)
    assert of_filling["completions"] == []
    assert of_filling["map"]["notes"][-1] == "The map is without the pin."


def test_words_for_every_blank_are_refused(client):
    answer = client.post("/api/fill", json={"text": TWO, "given": {"1": "cat", "2": "mat"}})
    assert answer.status_code == 422
    assert "leave one open" in answer.json()["error"]


@pytest.mark.parametrize("cells", [2, 12], ids=["off the map", "on the map"])
def test_a_pinned_word_beyond_the_first_has_a_bar(tiny, cells):
    free = unmask.fill(TWO, tiny)
    likeliest = free.joint.marginal(0).top(len(free.joint.marginal(0)))
    word = likeliest["token"].iloc[-1]
    assert len(likeliest) > BARS
    pins = drawn(unmask.fill(TWO, tiny, given={1: word}), tiny, cells=cells)["map"]["pins"]
    bars = pins["blanks"][0]["bars"]
    (pinned,) = [bar for bar in bars if bar["pinned"]]
    assert pinned["token"] == word
    assert pinned["text"] == percent_of(likeliest["prob"].iloc[-1])
    assert [bar["token"] for bar in bars[:2]] == likeliest["token"].tolist()[:2]


def test_completions_of_one_text_tell_the_likeliest(tiny):
    filling = unmask.fill(TWO, tiny, top=2)
    first, second = filling.completions
    same = replace(filling, completions=[first, replace(second, text=first.text)])
    assert drawn(same, tiny)["told"]["values"] == {first.text: first.log_prob}


def test_completions_have_bars_words_and_numbers_to_compare(tiny):
    filling = unmask.fill(TWO, tiny, top=4)
    of_filling = drawn(filling, tiny)
    longest = exp(filling.completions[0].log_prob)
    for one, completion in zip(of_filling["completions"], filling.completions, strict=True):
        assert one["words"] == list(completion.tokens)
        assert one["share"] == pytest.approx(exp(completion.log_prob) / longest, abs=1e-4)
    values = {one.text: one.log_prob for one in filling.completions}
    assert of_filling["told"] == {"by": "log-probability of completions", "values": values}


def test_a_search_has_no_map_and_puts_parts_into_its_blanks(tiny):
    filling = unmask.fill("the [GAP:1-2] on the [MASK] .", tiny, top=3)
    of_filling = drawn(filling, tiny)
    assert of_filling["map"] is None
    assert [one["words"] for one in of_filling["completions"]] == [
        list(one.parts) for one in filling.completions
    ]
