"""What a rehearsal launches is what pairs launch."""

from __future__ import annotations

import os

import pytest
import torch

pytest.importorskip("triton")
if not (os.environ.get("TRITON_INTERPRET") or torch.cuda.is_available()):
    pytest.skip("neither interpreted nor compiled here", allow_module_level=True)


from unmask.joints import derive_all
from unmask.joints.deriving import derive_blocks
from unmask.joints.metrics import metrics_of_blocks
from unmask.joints.triton.rehearsal import launches, random_pair, rehearse

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")


def test_every_launch_of_a_rehearsal_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNMASK_TRITON", "on")
    assert len([launch() for launch in launches(37, DEVICE)]) == 10


def test_a_rehearsal_ends_though_a_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("unmask.joints.triton.rehearsal.launches", lambda tokens, device: [fail, fail])
    rehearse(37, DEVICE).join(60)


@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_pairs_after_a_rehearsal_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton import knobs

    compiled: list[str] = []
    blocks = [random_pair(1209, DEVICE) for _ in range(2)]
    monkeypatch.setattr(knobs.compilation, "listener", lambda **about: compiled.append(about["src"].name))
    rehearse(1209, DEVICE).join()
    before = len(compiled)
    metrics_of_blocks(derive_blocks(blocks), [(1, 2), (3, 4)])
    assert compiled[before:] == []
    derive_all(random_pair(1208, DEVICE))
    assert len(compiled) > before, "control: lines of another multiple are programs of their own"
