"""The engine on Ray: the same numbers, and nothing lost when workers are killed.

Workers compute with other numbers of threads, so sums come in another order, and the last bits
differ. What float32 promises is an absolute error: log-probabilities of size 10 are exact to a
few 1e-6, and so are divergences, which are means of their differences, however small they are
(between 1 and 2 threads 1.2e-6 nats were seen, which is 5e-5 of a small A-KL). The objective is
a sum of divergences over contexts, so its error is as many times larger.
"""

import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

import unmask
from support.study_frames import rows_frame
from support.workers import workers
from unmask.common.errors import InputError, UnmaskError

REGULAR_TOKENS = 12


def cpu(folder, device="cpu"):
    return unmask.ModelSpec(folder, device=device)


def test_without_ray_the_error_says_what_to_install(tiny_folder, corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'pip install "unmask\[ray\]"'):
        unmask.evaluate(corpus, model=tiny_folder, engine="ray")


@pytest.mark.parametrize(
    ("device", "said"),
    [("cuda", "the Ray cluster has no GPU"), ("abacus", "'abacus' is not known")],
)
def test_a_device_that_the_cluster_lacks_is_one_line(ray_here, tiny_folder, corpus, device, said):
    with pytest.raises(UnmaskError, match=said):
        unmask.evaluate(corpus, model=unmask.ModelSpec(tiny_folder, device=device), engine="ray")


@pytest.fixture(scope="module")
def asked(tiny_folder, corpus):
    return {
        "data": corpus,
        "model": cpu(tiny_folder),
        "pairs": 60,
        "constructions": ("product", "mrf", "pseudo_gibbs"),
    }


@pytest.fixture(scope="module")
def local(asked):
    return unmask.evaluate(**asked)


def assert_same_numbers(rows: pd.DataFrame, expected: pd.DataFrame) -> None:
    about = ["pair", "text", "first", "second", "first_token", "second_token", "construction"]
    pd.testing.assert_frame_equal(rows[about], expected[about])
    for name in (
        "unary_nll_first",
        "unary_nll_second",
        "pair_nll",
        "a_kl",
        "g_kl",
        "incompatibility",
        "objective",
    ):
        contexts = 2 * REGULAR_TOKENS if name == "objective" else 1
        np.testing.assert_allclose(
            rows[name], expected[name], rtol=1e-5, atol=1e-5 * contexts, err_msg=name
        )


def test_a_killed_process_loses_nothing_and_a_run_goes_on_without_workers(
    asked, local, tiny_folder, tmp_path
):
    killed: list[int] = []

    def kill_one(done: int, total: int, what: str = "") -> None:
        if done >= 5 and not killed:
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)

    shared = asked | {"model": cpu(tiny_folder, "cpu,cpu")}
    evaluation = unmask.evaluate(**shared, out=tmp_path / "run", progress=kill_one)
    assert killed
    assert not evaluation.failed
    assert evaluation.n_pairs == 60
    assert_same_numbers(rows_frame(evaluation), rows_frame(local))
    parts = sorted((tmp_path / "run" / "parts").glob("part-*.parquet"))
    parts[-1].unlink()
    again = unmask.evaluate(**asked, out=tmp_path / "run")
    assert not again.failed
    assert again.n_pairs == 60
    assert_same_numbers(rows_frame(again), rows_frame(local))
