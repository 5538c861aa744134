"""`unmask.pipeline` beside transformers' own: the same entries for one mask, joint probabilities for several."""

from __future__ import annotations

from itertools import permutations
from math import exp, log

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers import pipeline as of_transformers

import unmask
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.source import english_model_path

TEXT = "The old [MASK] sat on a mat."


@pytest.fixture(scope="module", params=["bundled", "spaced"])
def both(request):
    """Our function, theirs, and the model."""
    folder = english_model_path() if request.param == "bundled" else request.getfixturevalue("spaced_folder")
    theirs = of_transformers(
        "fill-mask", model=AutoModelForMaskedLM.from_pretrained(folder).float(), tokenizer=AutoTokenizer.from_pretrained(folder)
    )
    model = MaskedLM.load(folder, device="cpu")
    return unmask.pipeline("fill-mask", model), theirs, model


def test_one_mask(both):
    ours, theirs, model = both
    text = TEXT.replace("[MASK]", theirs.tokenizer.mask_token)
    expected = [entry for entry in theirs(text, top_k=40) if entry["token"] not in model.special_ids]
    regular = 1 - sum(entry["score"] for entry in theirs(text, targets=list(model.words.special_tokens), top_k=99))
    for mine, other in zip(ours(TEXT, top_k=8), expected, strict=False):
        assert mine["score"] == pytest.approx(other["score"] / regular, rel=2e-4)
        assert {key: mine[key] for key in other if key != "score"} == {key: other[key] for key in other if key != "score"}
    assert ours(text) == ours(TEXT) == ours([TEXT]) and len(ours(TEXT)) == 5
    assert ours([TEXT, TEXT], top_k=2) == [ours(TEXT, top_k=2)] * 2


def test_targets(both):
    ours, theirs, _ = both
    found = ours(TEXT, targets=["dog", "mat", "dog"])
    words = [" dog", " mat"] if ours.model.words.spaces_in_tokens else ["dog", "mat"]
    ids = [ours.model.words.encode_word(word, False, True) for word in ("dog", "mat")]
    known = {tuple(entry["token"]) if isinstance(entry["token"], list) else (entry["token"],): entry for entry in found}
    assert set(known) == {tuple(one) for one in ids} and len(found) == 2
    assert [entry["score"] for entry in found] == sorted((entry["score"] for entry in found), reverse=True)
    assert [entry["token_str"] for entry in ours(TEXT, targets="dog")] == [words[0]]


def test_several_masks_are_the_mean_over_orders(both):
    ours, theirs, model = both
    text = "The [MASK] [MASK] sat on a mat."
    cloze = model.cloze(text)
    for entry in ours(text, top_k=3):
        terms = []
        for order in permutations(range(2)):
            ids, total = torch.tensor([cloze.ids]), 0.0
            for site in order:
                logits = model.logits(ids, torch.tensor([[cloze.block[site]]]))[0, 0].double()
                logits[list(model.special_ids)] = -torch.inf
                total += float(logits.log_softmax(0)[entry["token"][site]])
                ids[0, cloze.block[site]] = entry["token"][site]
            terms.append(total)
        assert log(entry["score"]) == pytest.approx(log(sum(map(exp, terms)) / 2), abs=1e-4)
        assert entry["token_str"] == [theirs.tokenizer.decode([i]) for i in entry["token"]]
        assert entry["sequence"] == model.text(cloze.filled(entry["token"]))


def test_a_target_of_several_tokens_is_not_cut(both):
    ours, _, model = both
    [entry] = ours(TEXT, targets="mats")
    scored = unmask.score([{"before": "The old", "target": "mats", "after": "sat on a mat."}], "any_order", model=model)
    assert len(entry["token"]) > 1
    assert log(entry["score"]) == pytest.approx(scored[0]["any_order"], abs=1e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "text-generation"}, "task 'text-generation'"),
        ({"top_k": 0}, "top_k 0"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(InputError, match=message):
        unmask.pipeline(**given)


def test_a_text_without_masks_is_refused():
    with pytest.raises(InputError, match="has no blank"):
        unmask.pipeline()("No mask here.")
