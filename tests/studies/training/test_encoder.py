"""The training forward pass against the plain definition, one order of sums, and the
optimisers' steps.
"""

import copy
import itertools

import pytest
import torch
from torch.utils import deterministic

from support.made_up import packed_text, toy_vocabulary
from unmask.studies.training.encoder import PackedBert, Slots, compile_options, new_model, one_order
from unmask.studies.training.packed_text import PackedText
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.trainer import WEIGHT_DECAY, make_optimisers, rate_at

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
    (found,) = torch.autograd.grad((nll * weight).sum(), hidden)
    logits = bert.logits(hidden[slots.position])
    log_q = logits.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1)
    assert torch.allclose(nll, -log_q, atol=1e-10)
    assert torch.equal(hit, logits.argmax(-1) == target)
    (plain,) = torch.autograd.grad((-log_q * weight).sum(), hidden)
    assert (found - plain).abs().max() < 1e-12
    assert found[2].abs().max() > 1e-3
    assert int((found != 0).any(1).sum()) == min(4, capacity)


CPU = torch.device("cpu")


def in_force():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_what_was_set_before_is_set_afterwards_also_after_an_error():
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


def test_compiled_code_is_not_chosen_by_a_stopwatch():
    options = compile_options()
    assert options
    assert set(options) <= set(torch._inductor.list_options())


def test_rate_rises_linearly_and_falls_to_zero_by_a_cosine():
    rates = [rate_at(s, 110, 10, 0.5) for s in range(111)]
    assert rates[0] == pytest.approx(0.05)
    assert rates[9] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.5)
    assert rates[60] == pytest.approx(0.25)
    assert rates[110] == pytest.approx(0.0, abs=1e-12)
    assert all(a >= b for a, b in itertools.pairwise(rates[9:]))


def test_a_step_of_a_layers_matrix_is_that_of_torch_and_has_the_root_mean_square_of_an_adamw_step():
    model = new_model(TrainSettings(layers=1, width=64, heads=2, vocab=64), 64)
    stacked = make_optimisers(model, "muon", 1.0)[0]
    plain = torch.optim.Muon(
        copy.deepcopy(stacked.param_groups[0]["params"]),
        1.0,
        WEIGHT_DECAY,
        adjust_lr_fn="match_rms_adamw",
    )
    generator = torch.Generator().manual_seed(1)
    for ours, theirs in zip(
        stacked.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True
    ):
        ours.grad = torch.randn(ours.shape, generator=generator)
        theirs.grad = ours.grad.clone()
        ours.data.zero_(), theirs.data.zero_()
    stacked.step(), plain.step()
    for ours, theirs in zip(
        stacked.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True
    ):
        assert 0.14 < ours.detach().square().mean().sqrt() < 0.26
        assert (ours * ours.grad).sum() < 0
        assert (ours - theirs).norm() < 0.02 * theirs.norm()  # torch orthogonalises in bfloat16


def test_every_parameter_is_stepped_by_exactly_one_optimiser_and_only_matrices_decay():
    model = new_model(TrainSettings(layers=1, width=16, heads=2, vocab=64), 64)
    for name in ("adamw", "muon"):
        groups = [g for o in make_optimisers(model, name, 0.1) for g in o.param_groups]
        stepped = [id(p) for g in groups for p in g["params"]]
        assert sorted(stepped) == sorted(id(p) for p in model.parameters())
        assert all(
            (g["weight_decay"] == WEIGHT_DECAY) == (p.dim() == 2)
            for g in groups
            for p in g["params"]
        )
