"""The engine on Ray: the same numbers, and nothing lost when workers are killed. Slow: Ray starts several processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pandas as pd
import pytest

from unmask.errors import InputError
from unmask.evaluation.evaluate import evaluate
from unmask.evaluation.plan import Request


def test_without_ray_the_error_says_what_to_install(tiny_folder, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'pip install "unmask\[ray\]"'):
        evaluate(Request(str(tiny_folder), str(corpus)), tmp_path / "run", engine="ray")


@pytest.fixture(scope="module")
def ray_here(monkeypatch_module):
    ray = pytest.importorskip("ray")
    monkeypatch_module.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def request_(tiny_folder, corpus):
    return Request(str(tiny_folder), str(corpus), pairs=60, constructions=("product", "mrf", "pseudo_gibbs"), device="cpu")


def rows(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "results.parquet").drop(columns="seconds")


def workers() -> list[int]:
    """Processes of Ray actors that descend from this one."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                names[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue

    def ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and ours(parents[process]))

    return [process for process, name in names.items() if b"MapWorker" in name and ours(process)]


@pytest.mark.slow
def test_ray_gives_the_numbers_of_the_local_engine(ray_here, request_, tmp_path):
    evaluate(request_, tmp_path / "local")
    outcome = evaluate(request_, tmp_path / "ray", engine="ray", workers=2)
    assert not outcome.failed
    pd.testing.assert_frame_equal(rows(tmp_path / "ray"), rows(tmp_path / "local"), rtol=1e-5)


@pytest.mark.slow
def test_killed_workers_lose_nothing_and_a_run_changes_engines(ray_here, request_, tmp_path):
    evaluate(request_, tmp_path / "local")
    killed: list[int] = []

    def kill_now_and_then(done: int, failed: int, total: int) -> None:
        if done in (5, 25) and (found := workers()):
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])

    outcome = evaluate(request_, tmp_path / "ray", engine="ray", workers=2, progress=kill_now_and_then)
    assert len(killed) == 2 and not outcome.failed and outcome.summary["pairs"] == 60
    pd.testing.assert_frame_equal(rows(tmp_path / "ray"), rows(tmp_path / "local"), rtol=1e-5)
    before = (tmp_path / "ray" / "table.md").read_text()
    (tmp_path / "ray" / "parts" / "part-000000.parquet").unlink()
    assert not evaluate(request_, tmp_path / "ray").failed
    assert (tmp_path / "ray" / "table.md").read_text() == before
