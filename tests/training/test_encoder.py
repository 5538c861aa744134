"""The training forward pass against the plain definition, and one order of sums."""

from __future__ import annotations

import pytest
import torch
from made_up import packed_text, toy_vocabulary
from torch.utils import deterministic

from unmask.training.encoder import PackedBert, Slots, compile_options, new_model, one_order
from unmask.training.packing import PackedText
from unmask.training.settings import TrainSettings

VOCABULARY = toy_vocabulary()
SEGMENTS = [[5, 9, 3], [20], [1, 1, 12]]


@pytest.fixture(scope="module")
def model():  # type: ignore[no-untyped-def]
    settings = TrainSettings(layers=2, width=16, heads=2, vocab=64, max_length=32)
    model = new_model(settings, VOCABULARY.size).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 1.0, generator=draw)
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
    index, filled, of = Slots.gather(mask, 5)
    assert index[filled].tolist() == [2, 7, 11] and filled.tolist() == [True] * 3 + [False] * 2
    assert of.tolist() == [5, 5, 0, 5, 5, 5, 5, 1, 5, 5, 5, 2]
    index, filled, of = Slots.gather(mask, 2)
    assert index.tolist() == [2, 7] and filled.all()
    assert of.tolist() == [2, 2, 0, 2, 2, 2, 2, 1, 2, 2, 2, 2]
    assert not Slots.gather(mask & False, 2).filled.any()


@pytest.mark.parametrize("capacity", [3, 8])
def test_the_gradient_at_gathered_positions_is_that_of_plain_indexing(model, capacity) -> None:  # type: ignore[no-untyped-def]
    """With more positions than slots and with fewer; no slot that is empty adds to the gradient."""
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    mask = torch.zeros_like(text.ids, dtype=torch.bool)
    mask[0, 2] = mask[1, 0] = mask[1, 5] = mask[2, 7] = True
    slots = Slots.gather(mask, capacity)
    target, weight = torch.arange(capacity) + 5, torch.where(slots.filled, torch.arange(capacity) + 1.0, 0.0)
    hidden = bert.hidden(text.ids, text).detach().requires_grad_()
    (found,) = torch.autograd.grad((bert.nll(hidden, slots, target)[0] * weight).sum(), hidden)
    log_q = bert.logits(hidden[slots.position]).log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1)
    (plain,) = torch.autograd.grad((-log_q * weight).sum(), hidden)
    assert (found - plain).abs().max() < 1e-12 and found[2].abs().max() > 1e-3
    assert int((found != 0).any(1).sum()) == min(4, capacity)


def test_nll_and_hits_are_those_of_the_logits(model) -> None:  # type: ignore[no-untyped-def]
    text = packed_text(SEGMENTS, 32, VOCABULARY)
    bert = PackedBert(model, torch.float64)
    hidden = bert.hidden(text.ids, text)
    mask = torch.zeros_like(text.ids, dtype=torch.bool)
    mask[0, 3] = mask[1, 8] = mask[2, 6] = True
    slots, target = Slots.gather(mask, 3), torch.tensor([7, 8, 9])
    index = slots.position
    nll, hit = bert.nll(hidden, slots, target)
    log_q = bert.logits(hidden[index]).log_softmax(-1)
    assert torch.allclose(nll.double(), -log_q.gather(1, target.unsqueeze(1)).squeeze(1), atol=1e-10)
    assert torch.equal(hit, log_q.argmax(-1) == target)


CPU = torch.device("cpu")


def in_force() -> tuple[object, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_what_was_set_before_is_set_afterwards_also_after_an_error() -> None:
    before = in_force()
    with pytest.raises(ZeroDivisionError), one_order(torch.device("cuda")):
        assert in_force() == (True, False, False, "high", False)
        raise ZeroDivisionError
    assert in_force() == before
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with one_order(CPU):
            assert in_force()[:3] == (True, False, False)
        assert in_force()[:2] == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_has_no_fixed_order_is_refused_inside() -> None:
    values, index = torch.zeros(4), torch.zeros(2, dtype=torch.long)
    with one_order(CPU), pytest.raises(RuntimeError, match="deterministic"):
        values.put_(index, torch.ones(2))
    assert values.put_(index, torch.ones(2)).sum() == 1


def test_compiled_code_is_not_chosen_by_a_stopwatch() -> None:
    options = compile_options()
    assert options and set(options) <= set(torch._inductor.list_options())
