"""The GPU kernels for pairs against the tiles that every device runs, through Triton's interpreter."""

from __future__ import annotations

import os
from dataclasses import replace
from math import isclose

import pytest
import torch

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)

from unmask.cloze import Cloze
from unmask.joints import CONSTRUCTIONS, compatibility, derive, derive_all, faithfulness
from unmask.joints.metrics import block_metrics
from unmask.joints.solver import balance, likely_tokens, pair_sweep
from unmask.joints.solver.family import start
from unmask.joints.solver.pair_form import Linear, PairForm, pair_form
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import Tables, unary_tables


@pytest.fixture(scope="module")
def tables() -> Tables:
    """A pair's tables in float32, of a size that fills no block of the kernels evenly."""
    generator = torch.Generator().manual_seed(3)
    n, m = 21, 150
    logits = [3 * torch.randn(n, m, generator=generator) for _ in range(2)]
    masked = [torch.randn(size, generator=generator).log_softmax(0) for size in (n, m)]
    return Tables(
        candidates=(torch.arange(n), torch.arange(m)),
        log_q=tuple(f.log_softmax(t) for t, f in enumerate(logits)),
        log_inside=(torch.zeros(1, m), torch.zeros(n, 1)),
        log_total=tuple(f.logsumexp(t, keepdim=True) for t, f in enumerate(logits)),
        log_masked=tuple(masked),
        log_masked_inside=(0.0, 0.0),
    )


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernels serve tables on a CPU."""
    for module in (pair_sweep, likely_tokens, faithfulness, compatibility):
        monkeypatch.setattr(module, "kernels_serve", lambda tables: True)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_every_construction_has_a_pair_form_with_its_cells(tables: Tables, name: str) -> None:
    joint = derive(tables, name)
    form = pair_form(tables, joint.rule)
    assert form is not None

    def cells(part: Linear) -> torch.Tensor:
        return part.a * tables.log_q[0] + part.b * tables.log_q[1] + part.f[:, None] + part.e[None, :]

    expected = cells(form.first)
    if form.second is not None:
        expected = torch.logaddexp(expected, cells(form.second))
    if form.below is not None:
        expected = expected - torch.logaddexp(form.below[0][:, None], form.below[1][None, :])
    torch.testing.assert_close(expected, joint.rule((slice(None), slice(None))), rtol=1e-5, atol=2e-5)


def test_a_rule_that_is_no_pair_form_is_left_to_the_tiles(tables: Tables) -> None:
    assert pair_form(tables, lambda index: tables.log_q[0][index] * 2) is None


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_a_sweep_by_kernels_is_a_sweep(tables: Tables, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given = start(tables)
    expected = balance.sweep(tables, given, alpha)
    monkeypatch.setattr(pair_sweep, "kernels_serve", lambda tables: True)
    for found, wanted in zip(balance.sweep(tables, given, alpha), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_metrics_by_kernels_are_those_of_the_tiles(tables: Tables, kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    joints = derive_all(tables)
    by_kernels = block_metrics(joints, (4, 7))
    for module in (faithfulness, compatibility):
        monkeypatch.setattr(module, "kernels_serve", lambda tables: False)
    monkeypatch.setattr(faithfulness, "_own_sums", faithfulness._own_sums.__wrapped__)
    by_tiles = block_metrics(joints, (4, 7), tile_cells=500)
    assert isclose(by_kernels.compatibility, by_tiles.compatibility, rel_tol=1e-5)
    for found, wanted in zip(by_kernels.joints, by_tiles.joints, strict=True):
        for key in ("joint_nll", "a_kl", "g_kl", "objective"):
            assert isclose(getattr(found, key), getattr(wanted, key), rel_tol=1e-4, abs_tol=1e-5), (found.construction, key)


def test_another_table_gives_other_sums(tables: Tables, kernels: None) -> None:
    joint = derive(tables, "mrf")
    wrong = PairForm(Linear(1, 0, torch.zeros(21), torch.zeros(150)))
    right = faithfulness.read_joints([joint])[0]
    found = faithfulness._read_by_kernels([joint], [wrong])
    assert found is not None and abs(found[0].average_kl - right.average_kl) > 0.1


def test_a_block_of_a_model_on_a_cpu_is_left_to_the_tiles() -> None:
    model = TabularMLM.random(4, 2, seed=0)
    of_model = unary_tables(model, Cloze((4, 4), (0, 1)))
    assert not pair_sweep.kernels_serve(of_model)
    assert not pair_sweep.kernels_serve(replace(of_model, log_q=tuple(q.float() for q in of_model.log_q)))
