"""What a rehearsal launches is what pairs launch."""

from __future__ import annotations

import os
import subprocess
import sys

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
    if not CUDA:
        monkeypatch.setattr("unmask.joints.triton.rehearsal.FEW", 16)
    assert len([launch() for launch in launches(37, DEVICE)]) == 10


def test_a_rehearsal_ends_though_a_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("unmask.joints.triton.rehearsal.launches", lambda tokens, device: [fail, fail])
    rehearse(37, DEVICE).join(60)


ENDING = """
import sys, time, torch
from unmask.joints.triton import rehearsal

def others():
    while True:
        time.sleep(0.02)
        yield lambda: time.sleep(0.2)

rehearsal.rehearse(37, torch.device("cpu"), others)
time.sleep(0.1)
sys.exit("one line")
"""


def test_a_process_may_end_in_the_middle_of_a_rehearsal() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (1, "one line\n")


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
