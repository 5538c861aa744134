"""The frontier: laws by hand, differences paired by text, a run that continues, and what is
refused.
"""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import unmask
from support.command_runner import invoke
from support.study_frames import rows_frame
from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import with_law
from unmask.sampling.target import Target
from unmask.studies.evaluation.frontier import SEQUENTIAL, LeftToRight, texts_of_length

TEXTS = [
    "The dog saw the small bird.",
    "A man is on the boat.",
    "Two men are in a park.",
    "He is here.",
]
"""Three of seven tokens, and one of four."""
CHEAP = {"decoders": ["interleaved", "random-sets"], "passes": [1, 2], "length": 7}


def test_left_to_right_is_the_chain_rule_and_all_orders_sum_to_one():
    model = TabularMLM.random(3, 3, seed=2)
    texts = torch.tensor(list(itertools.product(range(3), repeat=3)))
    target = Target(model, [model.mask_id] * 3)
    for kind in SEQUENTIAL.values():
        decoder = kind(passes=3).on(target)
        laws = law(decoder, texts, ChainStreams(0, [0] * len(texts)).at(0, 0))
        assert float(laws.log_q.sum(1).exp().sum()) == pytest.approx(1, abs=1e-12)
        assert set(laws.passes.tolist()) == {3}
        if kind is LeftToRight:
            for text, log_q in zip(texts.tolist(), laws.log_q.sum(1).tolist(), strict=True):
                shown = [[*text[:t], *[model.mask_id] * (3 - t)] for t in range(3)]
                rows = model.logits(torch.tensor(shown), torch.arange(3).unsqueeze(1))[
                    :, 0
                ].log_softmax(1)
                assert log_q == pytest.approx(
                    sum(float(rows[t, text[t]]) for t in range(3)), abs=1e-12
                )


@pytest.fixture(scope="module")
def frontier():
    return unmask.frontier(TEXTS, **CHEAP)


def test_numbers_are_those_of_the_scores_and_of_the_chain_rule(frontier):
    assert frontier.n_texts == 3
    assert frontier.skipped == {"of another length": 1}
    rows = rows_frame(frontier).set_index(["decoder", "asked", "text"])["nats"]
    scores = unmask.score(TEXTS[:3], score="decoder:interleaved@2")
    for number, row in enumerate(scores):
        assert rows["interleaved", 2, number] == pytest.approx(
            -row["decoder:interleaved@2"], abs=1e-4
        )
    by_name = {(point["decoder"], point["asked"]): point for point in frontier.points}
    assert by_name["interleaved", 1]["passes"] == 1
    assert by_name["surest first", None]["passes"] == 7
    assert by_name["interleaved", 1]["nats"]["value"] == pytest.approx(
        by_name["random-sets", 1]["nats"]["value"], abs=1e-6
    )
    assert by_name["interleaved", 1]["nats"]["value"] == pytest.approx(
        rows_frame(frontier).query("asked == 1").nats.mean() / 7
    )
    sequential = {name: by_name[name, None]["nats"]["value"] for name in SEQUENTIAL}
    assert frontier.best == min(sequential, key=sequential.get)
    assert all(point["difference"]["value"] == 0 for point in frontier.points if point["best"])


def test_differences_are_paired_by_text():
    """Two decoders that differ by 0.1 on every text: the interval of the difference has no
    width, that of the nats has.
    """
    draw = np.random.default_rng(0)
    texts = draw.normal(30, 5, 40)
    rows = [
        {
            "decoder": name,
            "asked": asked,
            "text": i,
            "passes": 10,
            "rounds": 10,
            "rows": 10,
            "nats": nats + more,
        }
        for name, asked, more in (("random-sets", 2, 1.0), ("surest first", None, 0.0))
        for i, nats in enumerate(texts)
    ]
    settings = {"length": 10, "seed": 0, "data": "x", "model": "y"}
    draw.shuffle(rows)
    first, second = unmask.Frontier(settings, rows).points
    point = first if first["decoder"] == "random-sets" else second
    assert point["difference"]["low"] == pytest.approx(0.1) == point["difference"]["high"]
    assert point["nats"]["high"] - point["nats"]["low"] > 0.2
    worse = unmask.Frontier(settings, rows)
    said = "All are significantly worse than one token per pass (surest first)."
    assert worse.verdict()[0] == said
    equal = [{**row, "nats": row["nats"] % 1} for row in rows]  # one nat apart: the same fraction
    as_good = unmask.Frontier(settings, equal)
    assert (
        as_good.verdict()[0]
        == "Not significantly worse than surest first: random-sets in 10 rounds."
    )


def test_texts_are_first_tokens_or_whole_texts():
    model = unmask.MaskedLM.load()
    whole, skipped = texts_of_length(model, TEXTS, 7, False, 10)
    first, _ = texts_of_length(model, TEXTS, 4, True, 3)
    assert whole.shape == (3, 9)
    assert first.shape == (3, 6)
    assert skipped == {"of another length": 1}
    assert torch.equal(first[:, :5], whole[:, :5])
    assert set(first[:, -1].tolist()) == set(whole[:, -1].tolist())
    assert len(texts_of_length(model, TEXTS, 7, False, 2)[0]) == 2
    with pytest.raises(
        InputError,
        match="data has no text of 5 tokens: give other texts or another length, or first=True",
    ):
        texts_of_length(model, TEXTS, 5, False, 2)
    _, skipped = texts_of_length(
        model, ["\u6d77 is a word here now.", "bad \x07 text", *TEXTS], 7, False, 2
    )
    assert skipped["cannot be read"] == 1


def test_the_command_writes_files_and_continues(frontier, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    words = [
        tmp_path / "texts.txt",
        "--decoders",
        "interleaved,random-sets",
        "--passes",
        "1,2",
        "--length",
        "7",
    ]
    line = ["frontier", *map(str, words), "--out", str(tmp_path / "run")]
    made = invoke(line)
    assert made.exit_code == 0, made.output
    assert "interleaved" in made.output, made.output
    assert "left to right" in made.output, made.output
    stored = json.loads((tmp_path / "run" / "frontier.json").read_text())
    assert stored["points"] == json.loads(json.dumps(frontier.points))
    assert (tmp_path / "run" / "frontier.png").read_bytes().startswith(b"\x89PNG")
    assert "| interleaved | 1 |" in (tmp_path / "run" / "frontier.md").read_text()
    parts = sorted((tmp_path / "run" / "parts").glob("*.parquet"))
    parts[-1].unlink()
    again = invoke([*line, "--json"])
    assert again.exit_code == 0
    assert json.loads(again.stdout)["points"] == stored["points"]
    assert len(list((tmp_path / "run" / "parts").glob("*.parquet"))) == len(parts)
    other = invoke([*line[:-2], "--seed", "1", "--out", tmp_path / "run"])
    assert other.exit_code == 2
    assert "holds a run with --seed 0, not 1" in other.stderr


def test_random_orders_do_not_depend_on_the_batch(frontier):
    alone = [row["nats"] for row in unmask.frontier(TEXTS[:1], **CHEAP).rows]
    beside_others = [row["nats"] for row in frontier.rows if row["text"] == 0]
    assert beside_others == pytest.approx(alone, abs=1e-4)


def test_a_decoder_that_is_named_twice_is_measured_once():
    twice = unmask.frontier(
        TEXTS[:1], decoders=["interleaved", "interleaved"], passes=[2, 2], length=7
    )
    assert [(point["decoder"], point["asked"]) for point in twice.points] == [
        ("interleaved", 2),
        *((name, None) for name in SEQUENTIAL),
    ]
    assert twice.settings["decoders"] == ["interleaved"]
    assert len(twice.rows) == 4


def test_what_is_refused(tmp_path):
    for message, options in {
        "mask-predict has no law that can be computed": {"decoders": ["mask-predict"]},
        "passes 7 is not below the length, 7": {"passes": [2, 7, 9]},
        "sets 99 is not below the length, 7": {"decoders": ["verified"], "sets": [2, 99]},
        "passes 8 is not below the length, 7": {"decoders": [unmask.Interleaved(passes=8)]},
        "data has no text of 9 tokens": {"length": 9},
        "the text has 202 tokens": {"length": 200},
    }.items():
        with pytest.raises(InputError, match=message) as caught:
            unmask.frontier(TEXTS, **{"length": 7, **options})
        assert "\n" not in str(caught.value)
    assert "mask-predict" not in with_law()
    assert math.isclose(len(set(with_law())), len(with_law()))


def test_rounds_and_rows_stand_beside_passes():
    texts = ["Two men are in a park.", "A girl sat on the chair."]
    frontier = unmask.frontier(texts, decoders=["interleaved", "verified"], passes=[2], length=7)
    points = {point["decoder"]: point for point in frontier.points}
    assert (
        points["interleaved"]["rounds"]
        == points["interleaved"]["rows"]
        == points["interleaved"]["passes"]
        == 2
    )
    verified = points["verified"]
    assert verified["passes"] == 7
    assert 2 <= verified["rounds"] < 14
    assert verified["rows"] >= verified["rounds"]
    assert "| rounds | rows |" in frontier.to_markdown()
    assert frontier.figure().axes[0].get_xlabel() == "rounds per text"


OWN = '''
import torch
import unmask
from unmask.sampling.decoders.decoder import lowest
from unmask.sampling.decoders.revealing import RevealingInSteps


@unmask.method
class LastFirst(RevealingInSteps):
    """The blanks furthest to the right."""

    label = "last ones first"

    def choose(self, on, observed):
        place = torch.arange(observed.blank.shape[1], device=observed.blank.device)
        last_first = -place.double().expand(observed.blank.shape)
        return lowest(last_first, observed.blank, observed.share)
'''


def test_objects_and_decoders_of_ones_own_are_measured_as_ours_are(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    options = {"length": 7, "passes": [2]}
    by_name = unmask.frontier(TEXTS, decoders=["interleaved"], **options)
    by_object = unmask.frontier(TEXTS, decoders=[unmask.Interleaved()], **options)
    assert by_object.settings == by_name.settings
    assert by_object.rows == by_name.rows
    own_number = unmask.frontier(TEXTS, decoders=[unmask.Interleaved(passes=2)], length=7)
    assert own_number.rows == by_name.rows
    out = tmp_path / "run"
    spelled = f"{file}:LastFirst"
    own = unmask.frontier(TEXTS, decoders=[spelled, "interleaved"], out=out, **options)
    assert [point["decoder"] for point in own.points][:2] == ["last-first", "interleaved"]
    stored, ours = own.settings["decoders"]
    assert (stored["name"], stored["code"], ours) == (
        "last-first",
        "mine.py:LastFirst",
        "interleaved",
    )
    assert "last-first" in own.to_markdown()
    file.write_text(OWN.replace("-place.double()", "place.double()"))
    with pytest.raises(InputError, match="holds a run with .*sha256"):
        unmask.frontier(TEXTS, decoders=[spelled, "interleaved"], out=out, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoders": [unmask.MaskPredict()]}, "mask-predict has no law that can be computed"),
        ({"decoders": [unmask.Interleaved(temperature=0.0)]}, "interleaved has no law"),
        (
            {"decoders": [unmask.Interleaved(passes=3)], "passes": [2]},
            "passes was given, and decoders interleaved has its own: give one of the two",
        ),
        (
            {"decoders": [unmask.Interleaved(), unmask.Interleaved(passes=3)]},
            "decoders has interleaved twice, with different options",
        ),
        ({"decoders": ["interleavd"]}, "decoders 'interleavd' is unknown: did you mean inter"),
        ({"decoders": [unmask.Interleaved]}, r"Interleaved is a class: give Interleaved\(\)"),
        ({"decoders": "interleaved", "sets": [2]}, "sets is not used by interleaved"),
    ],
)
def test_decoders_that_cannot_be_measured(options, message):
    with pytest.raises(InputError, match=message):
        unmask.frontier(TEXTS, length=7, **options)
