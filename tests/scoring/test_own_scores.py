"""A score that a user brings is taken wherever ours are: as an object, or as my.py:Mine."""

import json
import sys
from math import isnan

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.common.methods.own_code import without_own_code

SOURCE = '''
from typing import Annotated

import torch
from annotated_types import Interval

import unmask
from beside import WEIGHT


@unmask.method
class Mine(unmask.Score):
    """sum over t of power times log q(x_t | all masked)

    Parameters:
        power: Of mine: the weight of a token.
    """

    power: Annotated[float, Interval(ge=0)] = 1.0
    by_token = True

    def cost(self, sites):
        return 1

    def compute(self, model, batch, progress=None):
        hidden = batch.ids.scatter(1, batch.sites, model.mask_id)
        log_q = model.logits(hidden, batch.sites).double().log_softmax(-1)
        tokens = batch.ids.gather(1, batch.sites).unsqueeze(-1)
        return WEIGHT * self.power * log_q.gather(-1, tokens).squeeze(-1)


@unmask.method
class Fails(Mine):
    """an error of its own"""

    def compute(self, model, batch, progress=None):
        return {}["nothing"]


@unmask.method
class NoNumber(Mine):
    """NaN"""

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch) * torch.nan


@unmask.method
class Flat(Mine):
    """one number per text, though it is by token"""

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch).sum(1)


class Unmarked(Mine):
    """without its decorator"""


@unmask.method
class Taken(Mine):
    """another score's name"""

    name = "pll"


@unmask.method
class Nothing(unmask.Score):
    """nothing is computed"""


def not_a_score(texts):
    return 0.0
'''
TEXTS = ["The dog ran.", "a dog sat", "The unplayed dog sat."]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of my.py, which is the working directory."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "my.py").write_text(SOURCE)
    (folder / "beside.py").write_text("WEIGHT = 1.0\n")
    monkeypatch.chdir(folder)
    return folder


def by_hand(model, text):
    """The score of a text from the model's logits."""
    tokens = model.words.tokens_of(text)
    first, after = tokens.inside
    hidden = [model.mask_id if first <= t < after else i for t, i in enumerate(tokens.ids)]
    positions = torch.arange(first, after)[None]
    log_q = model.logits(torch.tensor([hidden]), positions)[0].double().log_softmax(-1)
    return sum(float(log_q[t - first, tokens.ids[t]]) for t in range(first, after))


def test_it_is_scored_beside_ours_and_by_token(own, pieces):
    scores = unmask.score(TEXTS, "my.py:Mine,pll", model=pieces, rows="nested")
    for text, row in zip(TEXTS, scores, strict=True):
        assert row["mine"] == pytest.approx(by_hand(pieces, text), abs=1e-5)
        surprisals = [token["mine_surprisal"] for token in row["tokens"]]
        assert sum(surprisals) == pytest.approx(-row["mine"])
    assert scores.scores["mine"]["definition"].startswith("sum over t of power times")
    assert not scores.scores["mine"]["probability"]
    assert {"mine_difference", "pll_difference"} <= set(scores.difference()[0])


def test_an_object_has_its_options(own, pieces, monkeypatch):
    monkeypatch.syspath_prepend(own)
    for name in ("my", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from my import Mine

    plain, doubled = (
        unmask.score(TEXTS, score=[Mine(power=power)], model=pieces) for power in (1.0, 2.0)
    )
    assert [row["mine"] for row in doubled] == pytest.approx([2 * row["mine"] for row in plain])
    with pytest.raises(InputError, match="power -1.0 is out of range"):
        Mine(power=-1.0)


def test_pairs_are_compared_by_it(own, pieces):
    pair = {"good": TEXTS[0], "bad": TEXTS[1]}
    (row,) = unmask.minimal_pairs([pair], score="my.py:Mine", model=pieces).rows
    assert row["mine_correct"] == float(row["good_mine"] > row["bad_mine"])


def test_the_command_takes_it(own, pieces_folder):
    done = invoke(["score", *TEXTS, "-s", "my.py:Mine,pll", "--json", "--model", pieces_folder])
    assert done.exit_code == 0, done.stderr
    assert "mine" in json.loads(done.stdout)["rows"][0]


def test_a_run_goes_on_with_the_same_code_only(own, pieces_folder, tmp_path):
    run = {"score": "my.py:Mine", "model": pieces_folder, "out": tmp_path / "run"}
    first = unmask.score(TEXTS, **run).rows
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["mine code"] == "my.py:Mine"
    assert len(settings["mine sha256"]) == 16
    assert settings["mine power"] == 1.0
    assert unmask.score(TEXTS, **run).rows == first
    (own / "beside.py").write_text("WEIGHT = 2.0\n")  # the hash covers what my.py imports
    with pytest.raises(InputError, match="mine sha256"):
        unmask.score(TEXTS, **run)


def test_workers_get_its_source(own, pieces_folder, tmp_path):
    several = unmask.ModelSpec(pieces_folder, device="cpu,cpu")
    shared = unmask.score(TEXTS, "my.py:Mine", model=several, out=tmp_path / "run").rows
    here = unmask.score(TEXTS, "my.py:Mine", model=pieces_folder).rows
    assert [row["mine"] for row in shared] == pytest.approx([row["mine"] for row in here], abs=1e-5)


def test_a_class_of_no_file_has_no_folder(pieces, tmp_path):
    @unmask.method
    class Here(unmask.Score):
        """the number of tokens"""

        def compute(self, model, batch, progress=None):
            return batch.sites.sum(1) * 0.0 + batch.sites.shape[1]

    assert unmask.score(TEXTS, Here(), model=pieces)[1]["here"] == 3.0
    with pytest.raises(InputError, match="stands in no file that another process could load"):
        unmask.score(TEXTS, Here(), model=pieces, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("score", "told"),
    [
        ("my.py:Fails", r"^score my.py line 37: KeyError: 'nothing': mend it$"),
        ("my.py:Flat", r"compute of score flat returned numbers of shape \(1,\): return \(1, 4\)"),
        ("my.py:Unmarked", "is a class without its decorator: write @unmask.method above it"),
        ("my.py:Taken", "is called pll, as one of ours is: give the class another name"),
        ("my.py:Nothing", "does not define compute"),
        ("my.py:Min", r"my.py has no Min: did you mean Mine\?"),
        ("my.py:not_a_score", "and no score: name a class derived from unmask.Score"),
        ("ny.py:Mine", "there is no file 'ny.py'"),
        ("json.decoder:Mine", "decoder.py has no Mine"),
        ("no.such:Mine", "there is no module no.such"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(own, pieces, score, told):
    with pytest.raises(InputError, match=told) as refused:
        unmask.score("The dog ran.", score, model=pieces)
    assert "\n" not in str(refused.value)


def test_a_request_names_no_code(own, pieces):
    with without_own_code(), pytest.raises(InputError, match="names a file of code"):
        unmask.score("The dog ran.", "my.py:Mine", model=pieces)


def test_the_harness_takes_it(own, pieces):
    harness = pytest.importorskip("lm_eval.api.instance")
    from unmask.surfaces.integrations.harness import UnmaskLM

    lm = UnmaskLM(pieces, score="my.py:Mine", power=2.0)
    request = harness.Instance("loglikelihood_rolling", {}, (TEXTS[0],), 0)
    (value,) = lm.loglikelihood_rolling([request], disable_tqdm=True)
    assert value == pytest.approx(2 * by_hand(pieces, TEXTS[0]), abs=1e-5)


def test_a_number_that_is_none_has_a_reason(own, pieces):
    (row,) = unmask.score("The dog ran.", "my.py:NoNumber", model=pieces)
    assert row["no-number"] is None
    assert row["reason"] == "score no-number is NaN"
    (row,) = unmask.score("The dog ran.", "my.py:Mine", model=pieces)
    assert row["reason"] is None
    assert not isnan(row["mine"])


def test_the_law_of_a_decoder_with_its_options(pieces, tmp_path):
    law = unmask.DecoderLaw(unmask.Interleaved(passes=2))
    assert law.name == "decoder:interleaved@2"
    named = unmask.score(TEXTS, "decoder:interleaved@2", model=pieces)
    given = unmask.score(TEXTS, law, model=pieces, out=tmp_path / "run")
    assert given.rows == named.rows
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    stored = settings["decoder:interleaved@2 decoder"]
    assert (stored["name"], stored["passes"]) == ("interleaved", 2)


@pytest.mark.parametrize(
    ("law", "told"),
    [
        (lambda: unmask.DecoderLaw(unmask.MaskPredict()), "decoder mask-predict has no law"),
        (
            lambda: unmask.DecoderLaw(unmask.Interleaved(passes=2), passes=3),
            "passes is an option of the decoder interleaved itself: leave it out",
        ),
        (lambda: unmask.DecoderLaw("verified", passes=3), "passes is not used by decoder verified"),
        (lambda: unmask.DecoderLaw("interleaved", passes=0), "passes 0 is out of range"),
        (lambda: unmask.DecoderLaw(7), "'decoder:7' is unknown"),
    ],
)
def test_laws_that_cannot_be(law, told):
    with pytest.raises(InputError, match=told):
        law()
