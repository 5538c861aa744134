"""The GPU's reads of pairs against the tiles that every device runs, through Triton's
interpreter.
"""

import os
from dataclasses import replace
from math import isclose

import pytest
import torch

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)

from support.constructions import NAMES
from support.joint_cases import float32_pair
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.deriving import derive, derive_all
from unmask.joints.incompatibility import incompatibilities
from unmask.joints.members import Members, flat, start
from unmask.joints.metrics import block_metrics
from unmask.joints.rules import Linear, PairForm, pair_form
from unmask.joints.stacks import triton_serves
from unmask.joints.sweeps import sweep
from unmask.models import batching
from unmask.tables.unary import Tables

WITH_RESTARTS = (*NAMES, "family:0.5,0.25", "family:1,0.1")


@pytest.fixture(scope="module")
def tables() -> Tables:
    """Of a size that fills no block of a GPU program evenly."""
    return float32_pair((11, 37), 3)


@pytest.mark.parametrize("name", WITH_RESTARTS)
def test_every_construction_has_a_pair_form_with_its_cells(tables: Tables, name: str) -> None:
    joint = derive(tables, name)
    form = pair_form(tables, joint.rule)
    assert form is not None

    def cells(part: Linear) -> torch.Tensor:
        f, e = (
            torch.zeros(n) if v is None else v
            for v, n in zip((part.f, part.e), tables.shape, strict=True)
        )
        return part.a * tables.log_q[0] + part.b * tables.log_q[1] + f[:, None] + e[None, :]

    expected = cells(form.first)
    if form.second is not None:
        expected = torch.logaddexp(expected, cells(form.second))
    if form.below is not None:
        expected = expected - torch.logaddexp(form.below[0][:, None], form.below[1][None, :])
    torch.testing.assert_close(
        expected, joint.rule((slice(None), slice(None))), rtol=1e-5, atol=2e-5
    )


def test_a_rule_that_is_no_pair_form_is_left_to_the_tiles(tables: Tables) -> None:
    assert pair_form(tables, lambda index: tables.log_q[0][index] * 2) is None


def test_a_sweep_by_triton_is_a_sweep(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    square = Members.of(
        [tables],
        [Member(alpha, restart) for alpha in (0.0, 0.5, 1.0) for restart in (0.0, 0.2, 1.0)],
    )
    points = flat(start(tables)).expand(9, -1)
    expected = sweep(square, points)
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    torch.testing.assert_close(sweep(square, points), expected, rtol=1e-5, atol=1e-5)
    assert len({tuple(row) for row in expected.tolist()}) >= 7, (
        "the members are told apart, but for the chain's"
    )


@pytest.mark.parametrize("zeros", [False, True])
def test_joints_and_metrics_by_triton_are_those_of_the_tiles(
    zeros: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = float32_pair((11, 37), 3, zeros=zeros)
    by_tiles = block_metrics(derive_all(tables, WITH_RESTARTS), (4, 7))
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    by_triton = block_metrics(derive_all(replace(tables), WITH_RESTARTS), (4, 7))
    assert isclose(by_triton.incompatibility, by_tiles.incompatibility, rel_tol=1e-5)
    for metrics, expected in zip(by_triton.joints, by_tiles.joints, strict=True):
        for key in ("joint_nll", "a_kl", "g_kl", "objective"):
            assert isclose(
                getattr(metrics, key), getattr(expected, key), rel_tol=1e-4, abs_tol=1e-5
            ), (
                metrics.construction,
                key,
            )
    assert zeros == any(metrics.a_kl == torch.inf for metrics in by_triton.joints)


def test_incompatibility_by_triton_is_that_of_the_tiles_with_zeros_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(4)
    zeros = torch.rand(11, 37, generator=generator) < 0.3
    zeros[torch.arange(11), torch.arange(11)] = False
    zeros[0] = False
    pairs = []
    for first_zeros, second_zeros in (
        (zeros & False, zeros & False),
        (zeros, zeros),
        (zeros, zeros & False),
    ):
        logits = [torch.randn(11, 37, generator=generator) for _ in range(2)]
        masked = (
            logits[0].masked_fill(first_zeros, -torch.inf),
            logits[1].masked_fill(second_zeros, -torch.inf),
        )
        pairs.append(
            replace(
                float32_pair((11, 37), 3),
                log_q=tuple(f.log_softmax(t) for t, f in enumerate(masked)),
            )
        )
    by_tiles = incompatibilities(pairs)
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    assert triton_serves(*pairs)
    by_triton = incompatibilities(pairs)
    assert isclose(by_triton[0], by_tiles[0], rel_tol=1e-5)
    assert by_triton[1:] == by_tiles[1:], "tables with zeros are read by the tiles of every device"
    assert by_tiles[1] > 0.1
    assert by_tiles[2] == torch.inf


def test_a_token_that_one_table_rules_out_is_no_matter_to_a_form_without_it() -> None:
    from unmask.joints.stacks import Stack
    from unmask.joints.triton_programs import pair_sums

    a, b = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(5)).unbind()
    a[2, 5] = -torch.inf
    sums = pair_sums(
        Stack.of([a]),
        Stack.of([b]),
        PairForm(Linear(0, 1, torch.zeros(1, 16), torch.zeros(1, 32))),
        torch.zeros(1),
    )
    torch.testing.assert_close(sums.row_mass[0], b.double().exp().sum(1), rtol=1e-5, atol=1e-5)


def test_a_block_of_a_model_on_a_cpu_is_left_to_the_tiles(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not triton_serves(tables)
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    assert triton_serves(tables)
    assert not triton_serves(replace(tables, log_q=tuple(q.double() for q in tables.log_q)))
