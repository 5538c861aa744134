"""The training forward pass against the plain definition."""

import pytest
import torch

from support.made_up import packed_text, toy_vocabulary
from unmask.studies.training.encoder import PackedBert, Slots
from unmask.studies.training.packed_text import PackedText
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import new_model

VOCABULARY = toy_vocabulary()
SEGMENTS = [[5, 9, 3], [20], [1, 1, 12]]


@pytest.fixture(scope="module")
def model():
    settings = TrainSettings(layers=2, width=16, heads=2, vocab=64, max_length=32)
    model = new_model(settings, VOCABULARY.size).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 1.0, generator=draw)
    return model


def segments_of(text):
    out = []
    for r in range(len(text.ids)):
        for s in range(1, int(text.segment[r].max()) + 1):
            at = (text.segment[r] == s).nonzero().squeeze(1)
            out.append((r, int(at[0]), text.ids[r, at].long()))
    return out


def test_packed_rows_give_the_logits_of_each_segment_alone(model):
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    logits = bert.logits(bert.hidden(text.ids, text)).view(3, 32, -1)
    with torch.no_grad():
        for r, at, ids in segments_of(text):
            alone = model(input_ids=ids.unsqueeze(0)).logits[0]
            assert (logits[r, at : at + len(ids)] - alone).abs().max() < 1e-10
    leaky = PackedText(**{**text.__dict__, "same": torch.ones_like(text.same)})
    assert (
        bert.logits(bert.hidden(text.ids, leaky)).view(3, 32, -1)[0, :5] - logits[0, :5]
    ).abs().max() > 1e-2


def test_head_runs_on_the_gathered_positions_only():
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[0, 2] = mask[1, 1] = mask[1, 5] = True
    index, filled, of = Slots.gather(mask, 5)
    assert index[filled].tolist() == [2, 7, 11]
    assert filled.tolist() == [True] * 3 + [False] * 2
    assert of.tolist() == [5, 5, 0, 5, 5, 5, 5, 1, 5, 5, 5, 2]
    index, filled, of = Slots.gather(mask, 2)
    assert index.tolist() == [2, 7]
    assert filled.all()
    assert of.tolist() == [2, 2, 0, 2, 2, 2, 2, 1, 2, 2, 2, 2]
    assert not Slots.gather(mask & False, 2).filled.any()


@pytest.mark.parametrize("capacity", [3, 8])
def test_nll_and_its_gradient_at_gathered_positions_are_those_of_plain_indexing(model, capacity):
    """With more positions than slots and with fewer; no slot that is empty adds to the gradient."""
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    mask = torch.zeros_like(text.ids, dtype=torch.bool)
    mask[0, 2] = mask[1, 0] = mask[1, 5] = mask[2, 7] = True
    slots = Slots.gather(mask, capacity)
    target, weight = (
        torch.arange(capacity) + 5,
        torch.where(slots.filled, torch.arange(capacity) + 1.0, 0.0),
    )
    hidden = bert.hidden(text.ids, text).detach().requires_grad_()
    nll, hit = bert.nll(hidden, slots, target)
    (gradient,) = torch.autograd.grad((nll * weight).sum(), hidden)
    logits = bert.logits(hidden[slots.position])
    log_q = logits.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1)
    assert torch.allclose(nll, -log_q, atol=1e-10)
    assert torch.equal(hit, logits.argmax(-1) == target)
    (plain,) = torch.autograd.grad((-log_q * weight).sum(), hidden)
    assert (gradient - plain).abs().max() < 1e-12
    assert gradient[2].abs().max() > 1e-3
    assert int((gradient != 0).any(1).sum()) == min(4, capacity)
