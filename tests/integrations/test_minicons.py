"""The scorer with minicons' names has the numbers of `unmask score`; beside minicons itself where it is installed."""

from __future__ import annotations

from math import exp, log

import pytest

import unmask
from unmask.errors import InputError
from unmask.integrations.minicons import MaskedLMScorer
from unmask.models.masked_lm import MaskedLM

TEXTS = ["The old dog sat on a mat.", "A dog ran at noon."]


@pytest.fixture(scope="module")
def model(spaced_folder):
    return MaskedLM.load(spaced_folder, device="cpu")


@pytest.fixture(scope="module")
def scorer(spaced_folder):
    return MaskedLMScorer(str(spaced_folder), "cpu")


@pytest.mark.parametrize(("metric", "name"), [("original", "pll"), ("within_word_l2r", "pll_word"), ("left_to_right",) * 2])
def test_whole_texts(scorer, model, metric, name):
    rows = unmask.score(TEXTS, name, model=model, tokens=True)
    means = scorer.sequence_score(TEXTS, PLL_metric=metric)
    assert means == pytest.approx([row[name] / row["length"] for row in rows], abs=1e-5)
    sums = scorer.sequence_score(TEXTS, lambda x: x.sum(0).item(), base_two=True, PLL_metric=metric)
    assert sums == pytest.approx([row[name] / log(2) for row in rows], abs=1e-4)
    for found, row in zip(scorer.token_score(TEXTS, surprisal=True, PLL_metric=metric), rows, strict=True):
        assert found == [(token["token"], pytest.approx(token[f"{name}_surprisal"], abs=1e-5)) for token in row["tokens"]]
    [probabilities] = scorer.token_score(TEXTS[0], prob=True, PLL_metric=metric)
    assert [p for _, p in probabilities] == pytest.approx([exp(-token[f"{name}_surprisal"]) for token in rows[0]["tokens"]])


def test_after_a_prefix_and_before_a_suffix(scorer, model):
    total = {"reduction": lambda x: x.sum(0).item()}
    items = [{"before": "He drank a cup of", "target": word, "after": "at noon."} for word in ("tea", "mat")]
    scored = [row["pll"] for row in unmask.score(items, "pll", model=model)]
    found = scorer.conditional_score(["He drank a cup of"] * 2, ["tea", "mat"], ["at noon."] * 2, **total)
    assert found == pytest.approx(scored, abs=1e-5)
    [alone] = scorer.conditional_score("He drank a cup of", "tea", **total)
    assert alone == pytest.approx(unmask.score([items[0] | {"after": ""}], "pll", model=model)[0]["pll"], abs=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.token_score("A dog ran.", rank=True), "rank was asked for"),
        (lambda s: s.token_score("A dog ran.", prob=True, surprisal=True), "choose one"),
        (lambda s: s.sequence_score("A dog ran.", prob=True, base_two=True), "choose one"),
        (lambda s: s.sequence_score("A dog ran.", PLL_metric="any_order"), "PLL_metric 'any_order'"),
        (lambda s: s.sequence_score(["A dog ran.", "A [MASK]."]), "text 2: the text has a blank"),
        (lambda s: s.conditional_score(["A"], ["dog", "mat"]), "1 prefixes, 2 stimuli and 2 suffixes: give as many of each"),
    ],
)
def test_what_it_refuses(scorer, call, message):
    with pytest.raises(InputError, match=message):
        call(scorer)
