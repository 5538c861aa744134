"""Chains shared out among workers: the samples, the files and the resumption of a run in one
process.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import pandas
import pytest
import torch

import unmask
from support.sampling_cases import settings_of
from support.workers import Losing, workers
from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import read_object
from unmask.runs.processes import Processes
from unmask.runs.ray_cluster import RayWorkers
from unmask.sampling.chains import sharing
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.sharing import SharedChains


def same(one, other):
    """Samples are equal, bit for bit."""
    pandas.testing.assert_frame_equal(one.to_frame(), other.to_frame())


SETTINGS = {
    "mh": {"kernel": "mh", "length": (3, 5), "chains": 7, "sweeps": 9, "burn_in": 1, "thin": 2},
    "gibbs": {"kernel": "gibbs", "length": (4,), "chains": 4, "sweeps": 6, "start": "random"},
    "ancestral": {"kernel": "ancestral", "length": (4,), "chains": 5, "sweeps": 3},
}


@pytest.fixture
def shared(monkeypatch, tiny):
    """The chains of some settings on workers of this process."""

    def made(settings, **more):
        return SharedChains(settings, RayWorkers(3, "cpu"), lambda: tiny, **more)

    made.losing = Losing()
    monkeypatch.setattr(sharing, "each", made.losing)
    return made


@pytest.mark.parametrize("name", SETTINGS)
def test_shares_have_the_samples_of_one_process_bit_for_bit(shared, tiny, tmp_path, name):
    settings = settings_of(**SETTINGS[name])
    on_workers = draw_samples(settings, tiny, tmp_path / "shared", shared=shared(settings))
    local = draw_samples(settings, tiny, tmp_path / "local")
    assert shared.losing.deaths
    same(on_workers.samples, local.samples)
    assert (on_workers.starts, on_workers.rates) == (local.starts, local.rates)
    one, other = (
        read_object(tmp_path / folder / "settings.json") for folder in ("shared", "local")
    )
    assert {**one, "begun": 0, "chains_at_once": 0} == {**other, "begun": 0, "chains_at_once": 0}
    same(draw_samples(settings, tiny, shared=shared(settings)).samples, local.samples)


def test_a_run_changes_engines_in_the_middle(shared, tiny, tmp_path, stop_at):
    settings = settings_of(**SETTINGS["mh"])
    whole = draw_samples(settings, tiny)
    for number, order in enumerate(((True, False, True), (False, True, False))):
        out = tmp_path / str(number)
        for stop, on_workers in zip((4, 9), order[:2], strict=True):
            with pytest.raises(KeyboardInterrupt):
                draw_samples(
                    settings,
                    tiny,
                    out,
                    progress=stop_at(stop),
                    shared=shared(settings) if on_workers else None,
                )
        begun = sum(int(np.load(file)["done"]) for file in (out / "checkpoints").glob("*.npz"))
        assert begun >= 8
        resumed = draw_samples(settings, tiny, out, shared=shared(settings) if order[2] else None)
        same(resumed.samples, whole.samples)
        assert (resumed.starts, resumed.rates) == (whole.starts, whole.rates)


def test_workers_that_take_up_a_run_report_the_sweeps_that_were_done(
    shared, tiny, tmp_path, stop_at
):
    settings = settings_of(**{**SETTINGS["ancestral"], "length": (3, 4)})
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path, progress=stop_at(4))
    reports = []

    def report(done, total, what=""):
        reports.append((done, total))

    draw_samples(settings, tiny, tmp_path, progress=report, shared=shared(settings))
    assert reports == [(0, 6), (3, 6), (4, 6), (5, 6), (6, 6)]


def test_a_failure_on_a_worker_is_the_error_of_the_run(shared, tiny, monkeypatch):
    settings = settings_of(**SETTINGS["mh"])
    monkeypatch.setattr(
        sharing.ChainWorker,
        "__call__",
        lambda *_: (_ for _ in ()).throw(UnmaskError("no memory: give more")),
    )
    with pytest.raises(UnmaskError, match=r"^no memory: give more$"):
        draw_samples(settings, tiny, shared=shared(settings))


def test_a_loaded_model_does_not_travel(tiny):
    with pytest.raises(InputError, match="give its folder or name, not a loaded model"):
        unmask.sample(length=3, model=tiny, engine="ray")


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_workers_take_up_a_local_run_and_lose_one_and_this_process_finishes_it(
    request, one_thread, tiny_folder, tmp_path, engine
):
    """Workers have one thread, as this process has here: then numbers are the same, too, bit
    for bit.
    """
    if engine == "ray":
        request.getfixturevalue("ray_here")
    options = {
        "model": unmask.ModelSpec(tiny_folder, device="cpu"),
        "length": 4,
        "chains": 6,
        "sweeps": 60,
        "seed": 5,
    }
    whole, out, killed = unmask.sample(**options), tmp_path / "run", []

    def stop(done: int, total: int, what: str = "") -> None:
        if done >= 10:
            raise KeyboardInterrupt

    def kill_then_stop(done: int, total: int, what: str = "") -> None:
        if done > 10 and not killed:
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)
        if done >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unmask.sample(**options, out=out, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        several = {"model": unmask.ModelSpec(tiny_folder, device="cpu,cpu")}
        shared = {"engine": "ray:2"} if engine == "ray" else several
        unmask.sample(**options | shared, out=out, progress=kill_then_stop)
    assert killed
    assert int(np.load(out / "checkpoints" / "group-0000.npz")["done"]) >= 40
    resumed = unmask.sample(**options, out=out)
    same(resumed.samples, whole.samples)
    assert (resumed.starts, resumed.rates) == (whole.starts, whole.rates)
    assert (out / "diagnostics.json").is_file()


def test_a_worker_without_the_model_is_one_line(tiny_folder, tmp_path):
    """The model is moved away once this process has it; the folder keeps nothing."""
    import shutil

    copy = shutil.copytree(tiny_folder, tmp_path / "model")
    lm = unmask.MaskedLM.load(copy, device="cpu")
    settings = settings_of(length=(3,), chains=2, sweeps=2)
    chains = SharedChains(settings, Processes(("cpu",)), unmask.ModelSpec(str(copy), "cpu").load)
    copy.rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a worker cannot begin .*: every machine needs") as error:
        draw_samples(settings, lm, tmp_path / "run", shared=chains)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
