"""What a precompilation launches is what pairs launch."""

import os

import pytest
import torch

from support.constructions import of_names
from support.launch_kinds import compilations, record
from unmask.joints.deriving import derive_all, derive_blocks
from unmask.joints.metrics import metrics_of_blocks
from unmask.joints.precompile import launches, precompile, random_pair
from unmask.models import batching

pytest.importorskip("triton")
INTERPRETED = pytest.mark.skipif(
    not os.environ.get("TRITON_INTERPRET"), reason="compiled here, and held by the tests on a GPU"
)
CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=INTERPRETED), pytest.param("cuda", marks=pytest.mark.gpu)]
)
def test_every_launch_of_a_precompilation_runs(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    if device == "cpu":
        monkeypatch.setattr("unmask.joints.precompile.FEW", 16)
    assert len([launch() for launch in launches(37, torch.device(device))]) == 10


def test_a_precompilation_ends_though_a_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("unmask.joints.precompile.launches", lambda tokens, device: [fail, fail])
    thread = precompile(37, CPU)
    thread.join(600)
    assert not thread.is_alive(), "all programs are compiled before the thread ends"


@INTERPRETED
@pytest.mark.parametrize(
    ("likely", "pairs"), [(128, 1), (4, 1), (4, 2)], ids=["whole", "chosen", "two chosen"]
)
def test_pairs_are_compiled_for_what_a_precompilation_is(
    likely: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmask.joints import triton_programs

    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr("unmask.joints.precompile.FEW", 16)
    monkeypatch.setattr("unmask.joints.strips.LIKELY", likely)
    programs = ("_row_sums", "_column_sums"), ("_block_sums",), ("_table_sums",)
    kinds = [record(monkeypatch, triton_programs, *names) for names in programs]
    for launch in launches(37, CPU):
        launch()
    precompiled = [set(of_module) for of_module in kinds]
    assert [len(of_module) for of_module in precompiled] == [4, 4, 1]
    blocks = [random_pair(37, CPU) for _ in range(pairs)]
    metrics_of_blocks(
        derive_blocks(blocks, of_names(["mrf", "arnold_gokhale", "chain"])), [(1, 2)] * pairs
    )
    assert [of_module - before for of_module, before in zip(kinds, precompiled, strict=True)] == [
        set(),
        set(),
        set(),
    ]
    triton_programs.table_sums([random_pair(36, CPU)])
    assert kinds[2] > precompiled[2], "control: lines of another multiple are programs of their own"


@pytest.mark.gpu
@pytest.mark.parametrize("pairs", [1, 2])
def test_pairs_after_a_precompilation_compile_nothing(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, compiled = [random_pair(1209, GPU) for _ in range(pairs)], compilations(monkeypatch)
    precompile(1209, GPU).join()
    assert set(compiled) == {"_row_sums", "_column_sums", "_table_sums", "_block_sums"}
    before = len(compiled)
    metrics_of_blocks(derive_blocks(blocks), [(1, 2)] * pairs)
    assert compiled[before:] == []
    derive_all(random_pair(1208, GPU))
    assert len(compiled) > before, "control: lines of another multiple are programs of their own"
