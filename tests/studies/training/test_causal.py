"""`--objective causal`: the same network without a look ahead, against Hugging Face's decoder,
by hand, and as a judge.
"""

import math
from collections import Counter

import pytest
import torch
from tokenizers import Tokenizer

from studies.training.test_run import SMALL
from support import flat
from support.made_up import made_up_lines, packed_text, toy_vocabulary
from unmask.common.errors import UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.judge import CausalJudge
from unmask.studies.training.encoder import PackedBert
from unmask.studies.training.objectives import CausalTasks
from unmask.studies.training.packed_text import PackedText
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import new_model

VOCABULARY = toy_vocabulary()
CAUSAL = {key: value for key, value in SMALL.items() if key != "masking"} | {"objective": "causal"}
UNSET = {"layers": None, "width": None, "heads": None, "vocab": None}


def train(out, **options):
    return flat.train(
        made_up_lines(600), out=out, valid=made_up_lines(120, seed=1), **{**CAUSAL, **options}
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    torch.set_num_threads(1)
    return train(tmp_path_factory.mktemp("trained") / "model", steps=300)


def test_every_token_but_the_first_of_a_segment_is_asked_for():
    text = packed_text([[3, 2], [6]], 12, VOCABULARY)
    task = CausalTasks().task(text, VOCABULARY, torch.Generator())
    assert torch.equal(task.shown, text.ids)
    assert int(task.total) == 4 + 3 + 7
    predicted = [(r, i) for r, i in task.predicted.nonzero().tolist()]
    assert predicted == [(0, i) for i in (0, 1, 2, 3, 5, 6, 7)] + [(1, i) for i in range(7)]
    assert all(task.answer[r, i] == text.ids[r, i + 1] for r, i in predicted)
    assert CausalTasks().slots(2, 12, 4.0) >= int(task.total)
    full = packed_text([[10]], 12, VOCABULARY)  # nothing follows the last token of a full row
    assert CausalTasks().task(full, VOCABULARY, torch.Generator()).predicted[0].tolist() == [
        True
    ] * 11 + [False]


def test_no_position_looks_ahead_or_at_other_segments():
    settings = TrainSettings(layers=2, width=16, heads=2, vocab=64, max_length=16)
    model = new_model(settings, VOCABULARY.size).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.0)
    text = packed_text([[4, 6]], 16, VOCABULARY)
    bert = PackedBert(model, torch.float64, causal=True)
    before = bert.hidden(text.ids, text).detach()
    for changed in (3, 9):
        ids = text.ids.clone()
        ids[0, changed] = 5 + (ids[0, changed] - 4) % 35
        after = bert.hidden(ids, PackedText.of(ids, VOCABULARY)).detach()
        moved = (after - before).abs().amax(1) > 1e-9
        end = 6 if changed < 6 else 14
        assert moved.nonzero().flatten().tolist() == list(range(changed, end))
    masked = PackedBert(model, torch.float64)
    assert (masked.hidden(text.ids, text)[:3] - before[:3]).abs().max() > 1e-2


def test_the_model_loads_as_a_decoder_with_the_same_numbers(trained):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    lines = made_up_lines(120, seed=1)
    tokenizer = AutoTokenizer.from_pretrained(trained.out)
    model, report = AutoModelForCausalLM.from_pretrained(trained.out, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    total, count = 0.0, 0
    with torch.no_grad():
        for line in lines:
            ids = tokenizer(line, return_tensors="pt")["input_ids"]
            log_p = model(input_ids=ids).logits[0, :-1].double().log_softmax(-1)
            total -= float(log_p.gather(1, ids[0, 1:, None]).sum())
            count += ids.shape[1] - 1
    assert count == trained.validation.positions
    assert total / count == pytest.approx(trained.validation.loss, abs=1e-5)
    card = (trained.out / "README.md").read_text()
    assert "A causal language model" in card
    assert "objective: causal" in card
    assert "masking" not in card.lower()


def test_its_loss_is_that_of_the_law_of_the_language(trained):
    """All 72 sentences are alike; those that the tokenizer does not tell apart add up."""
    tokenizer = Tokenizer.from_file(str(trained.out / "tokenizer.json"))
    language = set(made_up_lines(5000))
    assert len(language) == 72
    law = Counter(tuple(tokenizer.encode(line).ids) for line in language)
    best = -sum(
        math.log(law[tuple(tokenizer.encode(line).ids)] / 72) for line in made_up_lines(120, seed=1)
    )
    assert trained.validation.loss * trained.validation.positions == pytest.approx(best, rel=0.05)


def test_masked_and_causal_models_are_not_taken_for_each_other(tmp_path, trained):
    masked = flat.train(
        made_up_lines(600), out=tmp_path / "masked", **{**SMALL, "steps": 1, "valid_share": 0.1}
    )
    with pytest.raises(UnmaskError, match="is a causal model"):
        MaskedLM.load(trained.out, device="cpu")
    with pytest.raises(UnmaskError, match="looks ahead"):
        CausalJudge(str(masked.out), "cpu")
    with pytest.raises(
        UnmaskError, match="is not a causal model: give one, or leave out objective=causal"
    ):
        train(tmp_path / "a", init=masked.out, **UNSET)
    with pytest.raises(UnmaskError, match="is a causal model"):
        train(tmp_path / "b", init=trained.out, objective="masked", **UNSET)
