"""The compiled pair kernels on a GPU against the tiles on a CPU; skipped where there is none."""

import pytest
import torch

from support.constructions import of_names
from support.joint_cases import float32_pair
from unmask.joints.deriving import derive_all, derive_blocks
from unmask.joints.metrics import block_metrics, metrics_of_blocks
from unmask.joints.stacks import triton_serves
from unmask.tables.unary import Tables

pytestmark = pytest.mark.gpu


def random_pair(seed: int, device: str, zeros: bool = False) -> Tables:
    """Larger than the likely tokens, uneven for the kernels' blocks."""
    return float32_pair((450, 700), seed, device, zeros)


@pytest.mark.parametrize("zeros", [False, True])
def test_all_joints_and_metrics_of_a_pair_are_those_of_the_cpu(zeros: bool) -> None:
    of_cpu, of_gpu = random_pair(4, "cpu", zeros), random_pair(4, "cuda", zeros)
    assert triton_serves(of_gpu)
    assert not triton_serves(of_cpu)
    expected, on_gpu = (block_metrics(derive_all(tables), (3, 5)) for tables in (of_cpu, of_gpu))
    assert on_gpu.incompatibility == pytest.approx(expected.incompatibility, rel=1e-4)
    for mine, theirs in zip(on_gpu.joints, expected.joints, strict=True):
        assert mine.joint_nll == pytest.approx(theirs.joint_nll, rel=1e-3)
        assert mine.a_kl == pytest.approx(theirs.a_kl, rel=1e-3, abs=1e-5)
    assert zeros == any(mine.a_kl == torch.inf for mine in on_gpu.joints)
    other = block_metrics(derive_all(random_pair(5, "cuda")), (3, 5))
    assert abs(other.joints[0].joint_nll - expected.joints[0].joint_nll) > 0.01


def test_pairs_at_once_have_the_numbers_that_they_have_alone() -> None:
    names = (
        "product",
        "mrf",
        "hcb",
        "arnold_gokhale",
        "balanced",
        "family:0.5,0.25",
        "pseudo_gibbs",
        "chain",
    )
    golds = [(3, 5), (0, 699), (449, 1), (17, 17)]
    together = metrics_of_blocks(
        derive_blocks([random_pair(seed, "cuda") for seed in range(4)], of_names(names)), golds
    )
    for seed, (gold, metrics) in enumerate(zip(golds, together, strict=True)):
        alone = block_metrics(derive_all(random_pair(seed, "cuda"), names), gold)
        assert metrics.incompatibility == pytest.approx(alone.incompatibility, rel=1e-9)
        for mine, theirs in zip(metrics.joints, alone.joints, strict=True):
            for name in ("joint_nll", "a_kl", "g_kl", "objective"):
                assert getattr(mine, name) == pytest.approx(
                    getattr(theirs, name), rel=1e-6, abs=1e-7
                ), (mine, name)
    assert abs(together[0].joints[0].joint_nll - together[1].joints[0].joint_nll) > 0.01
