"""Scores of variants on a GPU against a CPU; skipped where there is none."""

from itertools import product

import pytest
import torch

from support.all_at_once import contexts_of
from unmask.models.masked_lm import MaskedLM

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float16", 0.1)])
@pytest.mark.parametrize("enough", [1, 1000])
def test_every_score(letters_folder, dtype, tolerance, enough, monkeypatch):
    monkeypatch.setattr("unmask.studies.variants.contexts.enough_rows", lambda *_: enough)
    models = [
        MaskedLM.load(letters_folder, device="cpu"),
        MaskedLM.load(letters_folder, device="cuda", dtype=dtype),
    ]
    ids = models[0].words.encode("ACDEGACDEG")
    sites, allowed = (2, 4, 7, 9), models[0].regular_ids
    variants = torch.tensor(list(product(allowed[:3], repeat=4)))
    contexts = [contexts_of(model, ids, sites, "all", allowed) for model in models]
    expected, scores = (one.scores(variants) for one in contexts)
    assert contexts[0].passes == contexts[1].passes == contexts[1].pass_count(variants)
    for name, values in expected.items():
        torch.testing.assert_close(scores[name], values, rtol=0, atol=tolerance)
        assert float(values.std()) > 0.2
