"""pll and pll_word are those of minicons, token by token; runs where that package is installed."""

from __future__ import annotations

import pytest

import unmask
from unmask.models.masked_lm import MaskedLM

scorer = pytest.importorskip("minicons.scorer", reason="minicons is not installed")

TEXTS = ["The unplayed dog ran.", "A cat walks, dogs don't.", "dog", "The zebra sat."]


@pytest.mark.parametrize("folder", ["pieces_folder", "roberta_folder"])
@pytest.mark.parametrize(("name", "metric"), [("pll", "original"), ("pll_word", "within_word_l2r")])
def test_same_numbers(folder, name, metric, request):
    where = request.getfixturevalue(folder)
    theirs = scorer.MaskedLMScorer(str(where), "cpu")
    theirs.model.double()
    if not hasattr(theirs.tokenizer, "batch_encode_plus"):
        theirs.tokenizer.batch_encode_plus = theirs.tokenizer.__call__
    rows = unmask.score(TEXTS, name, model=MaskedLM.load(where, device="cpu", dtype="float64"), tokens=True)
    for text, row in zip(TEXTS, rows, strict=True):
        terms = theirs.compute_stats(theirs.prepare_text([text], PLL_metric=metric))[0]
        assert [-token[f"{name}_surprisal"] for token in row["tokens"]] == pytest.approx(terms, abs=1e-4)
        assert row[name] == pytest.approx(sum(terms), abs=1e-4)
