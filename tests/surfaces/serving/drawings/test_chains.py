"""Curves, tokens and numbers of chains, as they are drawn."""

from math import inf, nextafter
from types import SimpleNamespace

import pytest

import unmask
from unmask.common.formats import share
from unmask.surfaces.serving.drawings.chains import (
    MOST_STEPS,
    Counts,
    SweepLog,
    axis,
    ends_at,
    text_tokens,
    tokens_at,
)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ["0.0", "0.5", "1.0"]),
        (0, 4, ["0", "1", "2", "3", "4"]),
        (2.7, 13.9, ["5", "10"]),
        (1, 9.1, ["2", "4", "6", "8"]),  # 5 alone is a multiple of 5
        (-30, 10, ["-30", "-20", "-10", "0", "10"]),
        (1.001, 1.004, ["1.001", "1.002", "1.003", "1.004"]),
        (0, 12000, ["0", "5,000", "10,000"]),
    ],
)
def test_ticks_are_round_numbers_where_they_belong(low, high, texts):
    drawn = axis([high, low, inf])
    assert (drawn["low"], drawn["high"]) == (low, high)
    assert [text for _, text in drawn["ticks"]] == texts
    for place, text in drawn["ticks"]:
        assert place == pytest.approx((float(text.replace(",", "")) - low) / (high - low))
        assert -1e-9 <= place <= 1 + 1e-9


@pytest.mark.parametrize(
    "extent", [10.0**power * digit for power in range(-6, 7) for digit in (1, 1.7, 2.5, 7, 8.1)]
)
def test_an_axis_has_two_ticks_at_least_and_five_at_most(extent):
    ticks = axis([0.1234, 0.1234 + extent])["ticks"]
    assert 1 < len(ticks) <= MOST_STEPS + 1
    texts = [text for _, text in ticks]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "values",
    [[], [3.0], [3.0, 3.0], [inf, 2.0], [1e16, 1e16], [1e30], [-1e30, nextafter(-1e30, 0)]],
)
def test_an_axis_of_one_number_has_a_height(values):
    """Also of one that is so large that a float has no room for 1 beside it."""
    drawn = axis(values)
    assert drawn["high"] > drawn["low"]
    assert all(drawn["low"] <= value <= drawn["high"] for value in values if value != inf)
    assert 1 < len(drawn["ticks"]) <= MOST_STEPS + 1
    assert all(0 <= place <= 1 for place, _ in drawn["ticks"])


@pytest.mark.parametrize(
    ("low", "high"), [(0.3, 0.7), (0.1, 0.3), (-0.7, -0.3), (0.6, 0.7), (1.1, 1.4)]
)
def test_a_tick_at_an_end_is_not_lost(low, high):
    """`0.7 / 0.1` is less than 7."""
    ticks = axis([low, high])["ticks"]
    assert (float(ticks[0][1]), float(ticks[-1][1])) == (low, high)
    assert (ticks[0][0], ticks[-1][0]) == (pytest.approx(0), pytest.approx(1))


def test_the_axis_of_energies_holds_all_so_far():
    log = SweepLog(chains=2, sweeps=3)
    for energies in ([5.0, 2.0], [inf, 9.0], [4.0, 3.0]):
        log.add([0, 1], energies, ["a", "b"], passes=[1, 1])
    assert log.sweep([0, 1], 2)["axes"]["energies"] == axis([5.0, 2.0, 9.0, 4.0, 3.0])
    assert log.sweep([0], 2)["axes"]["energies"] == axis([5.0, 4.0])


def test_a_run_that_was_stopped_at_its_starts():
    log = SweepLog(chains=1, sweeps=1)
    log.add([0], [5.0], ["a"], passes=[1])
    drawn = log.drawn(is_last=True)
    assert drawn["part"] == "0 of 1 sweep"
    assert drawn["ends"] == {"last": 0, "texts": ("0", "0 sweeps")}
    assert drawn["passes"] == "1 pass of the model"


def test_a_log_adds_up_the_groups_of_a_run():
    """Two groups of chains, one after the other: shares are those of all steps."""
    log = SweepLog(chains=3, sweeps=2)
    log.add([0, 2], [5.0, inf], ["a", "b"], passes=[1, 1])
    log.add([0, 2], [4.0, 3.0], ["c", "d"], passes=[3, 4])
    log.add_counts([0, 2], 1, Counts(steps=4, accepted=3, changed=1))
    assert log.sweep([0, 2], 0)["values"] == {"energies": [5.0, None], "shares": [None, None]}
    drawn = log.sweep([0, 2], 1)
    assert drawn["values"] == {"energies": [4.0, 3.0], "shares": [0.75, 0.25]}
    assert drawn["facts"] == [
        ("accepted", share(0.75)),
        ("changed", share(0.25)),
        ("mean energy", "3.50"),
    ]
    assert log.done == 0, "a chain has not begun"
    assert log.drawn(is_last=True)["part"] == "0 of 2 sweeps"

    log.add([1], [9.0], ["e"], passes=[0])
    log.add([1], [8.0], ["f"], passes=[2])
    log.add_counts([1], 1, Counts(steps=2, accepted=0, changed=0))
    assert log.shares(1) == (0.5, pytest.approx(1 / 6))
    assert log.done == 1
    drawn = log.drawn(is_last=True)
    assert drawn["part"] == "1 of 2 sweeps"
    assert drawn["ends"] == ends_at(1) == {"last": 1, "texts": ("0", "1 sweep")}
    assert drawn["passes"] == "9 passes of the model"
    assert [row[:3] for row in drawn["sweeps"]["rows"]] == [
        [0, 1, 5.0],
        [0, 2, 9.0],
        [0, 3, "Infinity"],
        [1, 1, 4.0],
        [1, 2, 8.0],
        [1, 3, 3.0],
    ]
    assert drawn["told"]["values"] == {
        "accepted": 0.5,
        "changed": pytest.approx(1 / 6),
        "energy of chain 1": 4.0,
        "energy of chain 2": 8.0,
        "energy of chain 3": 3.0,
    }
    log.add([0, 2], [4.0, 3.0], ["c", "d"], passes=[5, 6])
    log.add_counts([0, 2], 2, Counts(steps=8, accepted=6, changed=2))
    told = log.told()["values"]  # the second group was stopped after a sweep
    assert (told["accepted"], told["changed"]) == (0.6, 0.2)

    so_far = log.drawn(is_last=False)
    assert (so_far["heading"], so_far["part"], so_far["ends"]) == ("So far", "", ends_at(2))


def test_hashes_mark_a_piece_of_word_pieces_alone(tiny, roberta_folder):
    """A byte-level vocabulary may have tokens of hashes, as of Markdown."""

    def drawn(model, *names):
        named = SimpleNamespace(
            words=model.words, mask_id=model.mask_id, decode=lambda ids: list(names)
        )
        return tokens_at(named, [model.mask_id + 1] * len(names))

    assert drawn(tiny, "##ing", "##") == [("ing", "piece"), ("##", "")]
    byte_level = unmask.load(roberta_folder)
    assert drawn(byte_level, "##", "###") == [("##", ""), ("###", "")]


def test_tokens_are_words_pieces_blanks_and_ends(tiny):
    words = tiny.words.encode("the [MASK] sat .")
    assert text_tokens(tiny, words) == [
        ("", "edge"),
        ("the", ""),
        ("▁", "blank"),
        ("sat", ""),
        (".", ""),
        ("", "edge"),
    ]


def test_a_word_of_pieces_is_joined():
    model = unmask.load()
    tokens = text_tokens(model, model.words.encode("He unhitched it."))
    kinds = [kind for _, kind in tokens]
    assert kinds.count("piece") > 0
    spelled = "".join(text if kind == "piece" else f" {text}" for text, kind in tokens)
    assert spelled.split() == ["He", "unhitched", "it", "."]
