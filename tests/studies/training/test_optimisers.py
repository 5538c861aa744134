"""The optimisers' steps and their learning rate."""

import copy
import itertools

import pytest
import torch

from unmask.studies.training.optimisers import WEIGHT_DECAY, make_optimisers, rate_at
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import new_model


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
