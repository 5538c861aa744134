"""Several blocks at once are the blocks alone: the solver's rows, the sums, the metrics."""

import os
from importlib.util import find_spec

import pytest
import torch

from support.constructions import of_names
from support.joint_cases import accelerated, distance, random_tables, tables_from
from unmask.joints.acceleration import Acceleration
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.deriving import derive_all, derive_blocks
from unmask.joints.family_solution import members_of
from unmask.joints.metrics import block_metrics, metrics_of_blocks
from unmask.joints.stacks import Stack, aligned, aligned_zeros
from unmask.joints.strips import strips
from unmask.models import batching
from unmask.tables.unary import Tables

ASKED = {"a": Member(0.0), "b": Member(0.5, 0.25), "c": Member(1.0)}
INTERPRETED = pytest.mark.skipif(
    not (find_spec("triton") and os.environ.get("TRITON_INTERPRET")),
    reason="compiled here, and held by test_cuda.py",
)


def pair(
    seed: int, scale: float, shape: tuple[int, int] = (430, 450), dtype: torch.dtype = torch.float64
) -> Tables:
    """More tokens than are taken whole; how many are likely depends on the scale."""
    generator = torch.Generator().manual_seed(seed)
    logits = [scale * torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2)]
    masked = [scale * torch.randn(size, generator=generator, dtype=dtype) for size in shape]
    return tables_from(
        [x.log_softmax(t) for t, x in enumerate(logits)], [x.log_softmax(0) for x in masked]
    )


def test_pairs_side_by_side_have_the_numbers_that_they_have_alone():
    blocks = [pair(1, 0.5), pair(2, 3.0), pair(3, 1.5)]
    counts = strips(blocks).counts
    assert len(set(counts)) == 3
    assert min(min(count) for count in counts) < max(max(count) for count in counts)
    for tables, together in zip(blocks, members_of(blocks, ASKED), strict=True):
        for joint, alone in zip(together, members_of([tables], ASKED)[0], strict=True):
            assert joint.report["converged"]
            assert joint.report["steps"] == alone.report["steps"]
            assert joint.report["reads"] == pytest.approx(alone.report["reads"], rel=1e-12)
            assert distance(joint.dense().exp(), alone.dense().exp()) < 1e-11
    first, second, _ = members_of(blocks, ASKED)
    assert distance(first[0].dense().exp(), second[0].dense().exp()) > 0.1


def test_metrics_side_by_side_are_those_of_the_blocks_alone():
    blocks = [random_tables((2, 6), seed) for seed in range(3)]
    golds = [(1, 2), (0, 5), (3, 3)]
    side_by_side = metrics_of_blocks(derive_blocks(blocks), golds)
    for tables, gold, of_block in zip(blocks, golds, side_by_side, strict=True):
        expected = block_metrics(derive_all(tables), gold)
        assert of_block.incompatibility == pytest.approx(expected.incompatibility, rel=1e-12)
        for mine, theirs in zip(of_block.joints, expected.joints, strict=True):
            assert mine.construction == theirs.construction
            for name in ("joint_nll", "a_kl", "g_kl", "objective"):
                assert getattr(mine, name) == pytest.approx(
                    getattr(theirs, name), rel=1e-8, abs=1e-10
                )
            assert mine.unary_nll == pytest.approx(theirs.unary_nll, rel=1e-8)


def test_an_iteration_that_is_taken_back_or_ends_leaves_its_neighbours_alone():
    """Three maps: one misleads and is taken back, one converges at once, one is slow."""
    truths = torch.randn(
        3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).log_softmax(1)
    rates = torch.tensor([[0.6], [0.0], [0.97]], dtype=torch.float64) * torch.linspace(
        0.2, 1, 6, dtype=torch.float64
    )
    calls = [0, 0, 0]

    def step(row: int, z: torch.Tensor) -> torch.Tensor:
        calls[row] += 1
        if row == 0 and calls[0] in (3, 6):
            return torch.full_like(z, torch.nan)
        return truths[row] + rates[row] * (z - truths[row])

    start = torch.zeros(3, 6, dtype=torch.float64).log_softmax(1)
    together = Acceleration(start, 1e-9, 200)
    while together.running:
        together.receive(
            torch.stack([step(row, z) for row, z in zip(together.running, together.z, strict=True)])
        )
    ends = together.ends
    assert [end.restarts for end in ends] == [2, 0, 0]
    assert len({end.reads for end in ends}) > 1
    calls = [0, 0, 0]
    for row, end in enumerate(ends):
        alone = accelerated(lambda z, row=row: step(row, z), start[row], 1e-9, 200)
        assert (end.reads, end.restarts, end.converged) == (alone.reads, alone.restarts, True)
        torch.testing.assert_close(end.log_p, alone.log_p, rtol=0, atol=1e-12)
        assert distance(end.log_p.exp(), truths[row].exp()) < 1e-9


def test_a_stack_finds_matrices_wherever_they_lie():
    matrices = [torch.arange(6.0).reshape(2, 3) + 10 * i for i in range(3)]
    stack = Stack.of(matrices, owner=[2, 0, 2])
    begins = [(matrices[i].data_ptr() - matrices[0].data_ptr()) // 4 for i in (2, 0, 2)]
    assert stack.places.tolist() == begins
    assert len(stack) == 3
    assert stack.shape == (2, 3)
    assert all(aligned(matrix) for matrix in aligned_zeros(matrices[0], 4, (3, 5)))
    assert aligned(torch.zeros(4, 16))
    assert not aligned(torch.zeros(4, 16).T)
    assert not aligned(torch.zeros(5)[1:])


@INTERPRETED
def test_pairs_side_by_side_by_triton_are_those_of_the_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = [pair(seed, 2.0, (9, 40), torch.float32) for seed in range(2)]
    wanted = ("mrf", "hcb", "arnold_gokhale", "family:0.5,0.25", "chain")
    golds = [(4, 7), (8, 39)]
    by_tiles = metrics_of_blocks(derive_blocks(blocks, of_names(wanted)), golds)
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    again = [pair(seed, 2.0, (9, 40), torch.float32) for seed in range(2)]
    by_triton = metrics_of_blocks(derive_blocks(again, of_names(wanted)), golds)
    for mine, theirs in zip(by_triton, by_tiles, strict=True):
        assert mine.incompatibility == pytest.approx(theirs.incompatibility, rel=1e-5)
        for by_programs, by_cells in zip(mine.joints, theirs.joints, strict=True):
            for name in ("joint_nll", "a_kl", "g_kl", "objective"):
                assert getattr(by_programs, name) == pytest.approx(
                    getattr(by_cells, name), rel=1e-4, abs=1e-5
                ), (by_programs, name)
    assert abs(by_triton[0].joints[0].joint_nll - by_triton[1].joints[0].joint_nll) > 0.01
