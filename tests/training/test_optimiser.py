"""The schedule, the orthogonalised step and which parameters go where."""

from __future__ import annotations

import pytest
import torch

from unmask.training.model_folder import new_model
from unmask.training.settings import TrainSettings
from unmask.training.trainer import make_optimisers, rate_at


def test_rate_rises_linearly_and_falls_to_zero_by_a_cosine() -> None:
    rates = [rate_at(s, 110, 10, 0.5) for s in range(111)]
    assert rates[0] == pytest.approx(0.05) and rates[9] == pytest.approx(0.5) and rates[10] == pytest.approx(0.5)
    assert rates[60] == pytest.approx(0.25) and rates[110] == pytest.approx(0.0, abs=1e-12)
    assert all(a >= b for a, b in zip(rates[10:], rates[11:], strict=False))


def test_a_step_of_a_layers_matrix_has_the_root_mean_square_of_an_adamw_step() -> None:
    model = new_model(TrainSettings(layers=1, width=64, heads=2, vocab=64), 64)
    matrix = model.bert.encoder.layer[0].intermediate["dense"].weight
    before = matrix.detach().clone()
    matrix.grad = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(1))
    make_optimisers(model, "muon", 1.0, 0.0)[0].step()
    moved = matrix.detach() - before
    assert 0.14 < moved.square().mean().sqrt() < 0.26 and (moved * matrix.grad).sum() < 0


def test_every_parameter_is_stepped_by_exactly_one_optimiser_and_only_matrices_decay() -> None:
    model = new_model(TrainSettings(layers=1, width=16, heads=2, vocab=64), 64)
    for name in ("adamw", "muon"):
        groups = [g for o in make_optimisers(model, name, 0.1, 0.3) for g in o.param_groups]
        stepped = [id(p) for g in groups for p in g["params"]]
        assert sorted(stepped) == sorted(id(p) for p in model.parameters())
        assert all((g["weight_decay"] == 0.3) == (p.dim() == 2) for g in groups for p in g["params"])
