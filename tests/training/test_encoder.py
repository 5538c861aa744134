"""The training forward pass against Hugging Face's own, and the regulariser in its packed form against the plain one."""

from __future__ import annotations

import pytest
import torch
from made_up import packed_text, toy_vocabulary

from unmask.training import compatibility
from unmask.training.encoder import PackedBert, gather_index
from unmask.training.layout import PackedText
from unmask.training.losses import compatibility_penalty
from unmask.training.model import new_model
from unmask.training.settings import TrainSettings

VOCABULARY = toy_vocabulary()
SEGMENTS = [[5, 9, 3], [20], [1, 1, 12]]


@pytest.fixture(scope="module")
def model():  # type: ignore[no-untyped-def]
    settings = TrainSettings(layers=2, width=16, heads=2, vocab=64, max_length=32, segment_lengths=(32,), buckets=(32,))
    model = new_model(settings, VOCABULARY.size).double()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 1.0)
    return model


def segments_of(text: PackedText) -> list[tuple[int, int, torch.Tensor]]:
    out = []
    for r in range(len(text.ids)):
        for s in range(1, int(text.segment[r].max()) + 1):
            at = (text.segment[r] == s).nonzero().squeeze(1)
            out.append((r, int(at[0]), text.ids[r, at].long()))
    return out


def test_packed_rows_give_the_logits_of_each_segment_alone(model) -> None:  # type: ignore[no-untyped-def]
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    logits = bert.logits(bert.hidden(text.ids, text)).view(3, 32, -1)
    with torch.no_grad():
        for r, at, ids in segments_of(text):
            alone = model(input_ids=ids.unsqueeze(0)).logits[0]
            assert (logits[r, at : at + len(ids)] - alone).abs().max() < 1e-10
    leaky = PackedText(**{**text.__dict__, "same": torch.ones_like(text.same)})
    assert (bert.logits(bert.hidden(text.ids, leaky)).view(3, 32, -1)[0, :5] - logits[0, :5]).abs().max() > 1e-2


def test_head_runs_on_the_gathered_positions_only() -> None:
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[0, 2] = mask[1, 1] = mask[1, 5] = True
    index, filled = gather_index(mask, 5)
    assert index[filled].tolist() == [2, 7, 11] and filled.tolist() == [True] * 3 + [False] * 2
    index, filled = gather_index(mask, 2)
    assert index.tolist() == [2, 7] and filled.all()


def test_nll_and_hits_are_those_of_the_logits(model) -> None:  # type: ignore[no-untyped-def]
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    hidden = bert.hidden(text.ids, text)
    index = torch.tensor([3, 40, 70])
    target = torch.tensor([7, 8, 9])
    nll, hit = bert.nll(hidden, index, target)
    log_q = bert.logits(hidden[index]).log_softmax(-1)
    assert torch.allclose(nll.double(), -log_q.gather(1, target.unsqueeze(1)).squeeze(1), atol=1e-10)
    assert torch.equal(hit, log_q.argmax(-1) == target)
    chosen = torch.tensor([[7, 1], [8, 2], [9, 3]])
    assert torch.allclose(
        bert.token_logits(hidden[index], chosen).double(), bert.logits(hidden[index]).gather(1, chosen), atol=1e-10
    )


class OneText:
    """A Hugging Face model as the plain conditional model of texts of one length."""

    mask_id = VOCABULARY.mask

    def __init__(self, model) -> None:  # type: ignore[no-untyped-def]
        self.model = model

    def logits(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits.gather(1, positions.unsqueeze(2).expand(-1, -1, VOCABULARY.size))


def test_packed_penalty_is_the_plain_one(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    drawn: list[torch.Tensor] = []
    draw = compatibility._draw
    monkeypatch.setattr(compatibility, "_draw", lambda *a: drawn.append(draw(*a)) or drawn[-1])
    seed, capacity = 11, 16
    value = compatibility.penalty(
        PackedBert(model, torch.float64), text, VOCABULARY, capacity, torch.Generator().manual_seed(seed)
    )
    noise = torch.rand(text.ids.shape, generator=torch.Generator().manual_seed(seed))
    rank = text.rank(noise, text.maskable)
    gaps = []
    for r, at, ids in segments_of(text):
        if len(ids) < 4:
            continue
        inside = range(at + 1, at + len(ids) - 1)
        a, b = (next(i for i in inside if rank[r, i] == n) for n in (0, 1))
        gaps.append((a, b, r, at, ids))
    order = sorted(range(len(gaps)), key=lambda i: gaps[i][2] * 32 + gaps[i][0])
    total = 0.0
    for pair, i in enumerate(order):
        a, b, r, at, ids = gaps[i]
        x2, y2 = drawn[0][pair : pair + 1].long(), drawn[1][pair : pair + 1].long()
        with torch.no_grad():
            total += compatibility_penalty(OneText(model), ids.unsqueeze(0), a - at, b - at, x2, y2).item()  # type: ignore[arg-type]
    assert value.item() == pytest.approx(total / len(gaps), rel=1e-9)
    assert value.item() > 1e-3
    value.backward()
    assert model.bert.encoder.layer[0].intermediate.dense.weight.grad.abs().sum() > 0
