"""On a GPU too the same command gives the same bits: again, in another process that compiles
anew, killed and resumed.
"""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from studies.training.test_run import checkpoint_of, go, run_apart, same, weights
from support.made_up import made_up_lines

pytestmark = pytest.mark.gpu
OPTIONS: dict[str, Any] = {
    "device": "cuda",
    "width": 128,
    "heads": 2,
    "batch_tokens": 16384,
    "steps": 40,
    "optimiser": "muon",
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "masked": {},
    "block": {"loss": "block", "masking": "fixed:0.3"},
    "adamw": {"masking": "fixed:0.3", "optimiser": "adamw"},
    "causal": {"objective": "causal", "masking": None},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus.txt").write_text("\n".join(made_up_lines(12_000)) + "\n")
    (folder / "valid.txt").write_text("\n".join(made_up_lines(500, seed=1)) + "\n")
    return folder


@pytest.fixture(scope="module", params=OBJECTIVES)
def options(request):
    return {**OPTIONS, **OBJECTIVES[request.param]}


@pytest.fixture(scope="module")
def once(shared, options, tmp_path_factory):
    out = tmp_path_factory.mktemp("once") / "model"
    assert go(shared, out, **options).finished
    return out


def test_again_gives_the_same_bits(shared, options, once, tmp_path):
    assert go(shared, tmp_path / "model", **options).finished
    assert same(weights(tmp_path / "model"), weights(once))
    go(shared, tmp_path / "other", **{**options, "seed": 4})
    assert not same(weights(tmp_path / "other"), weights(once))


def test_killed_in_another_process_and_resumed_gives_the_same_bits(shared, options, once, tmp_path):
    """The other process compiles for itself, with nothing that was compiled before, up to its
    death.
    """
    out = tmp_path / "model"
    child = run_apart(
        shared, out, options, hold=True, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "compiled")
    )
    while not checkpoint_of(out).exists() and child.poll() is None:
        time.sleep(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert not (out / "model.safetensors").exists()
    assert go(shared, out, **options).finished
    assert same(weights(out), weights(once))
