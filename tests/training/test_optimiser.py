"""The schedule, the orthogonalised step and which parameters go where."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unmask.training.model_folder import new_model
from unmask.training.settings import TrainSettings
from unmask.training.trainer import Muon, make_optimisers, orthogonalise, rate_at


def test_rate_rises_linearly_and_falls_to_zero_by_a_cosine() -> None:
    rates = [rate_at(s, 110, 10, 0.5) for s in range(111)]
    assert rates[0] == pytest.approx(0.05) and rates[9] == pytest.approx(0.5) and rates[10] == pytest.approx(0.5)
    assert rates[60] == pytest.approx(0.25) and rates[110] == pytest.approx(0.0, abs=1e-12)
    assert all(a >= b for a, b in zip(rates[10:], rates[11:], strict=False))


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 6, 20), (2, 20, 6)])
def test_orthogonalise_keeps_singular_vectors_and_levels_singular_values(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, s, vh = torch.linalg.svd(matrices, full_matrices=False)
    out = orthogonalise(matrices)
    levelled = (u.mT @ out @ vh.mT).diagonal(dim1=-2, dim2=-1)
    assert levelled[s > 0.05 * s.amax(1, keepdim=True)].sub(1).abs().max() < 0.35
    assert (out - u @ levelled.diag_embed() @ vh).abs().max() < 1e-8
    assert (s / s.amax(1, keepdim=True) - 1).abs().max() > 0.5  # they were not level before


def test_muon_step_has_the_root_mean_square_of_an_adamw_step() -> None:
    p = nn.Parameter(torch.zeros(64, 128))
    p.grad = torch.randn(64, 128, generator=torch.Generator().manual_seed(1))
    Muon([p], lr=1.0).step()
    assert 0.14 < p.detach().square().mean().sqrt() < 0.26
    assert (p * p.grad).sum() < 0


def test_every_parameter_is_stepped_by_exactly_one_optimiser_and_only_matrices_decay() -> None:
    model = new_model(TrainSettings(layers=1, width=16, heads=2, vocab=64), 64)
    for name in ("adamw", "muon"):
        groups = [g for o in make_optimisers(model, name, 0.1, 0.3, (0.9, 0.98)) for g in o.param_groups]  # type: ignore[arg-type]
        stepped = [id(p) for g in groups for p in g["params"]]
        assert sorted(stepped) == sorted(id(p) for p in model.parameters())
        assert all((g["weight_decay"] == 0.3) == (p.dim() == 2) for g in groups for p in g["params"])
