"""Sources shared out among workers: the rows of one process, also when workers are lost."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import unmask
from support import flat
from support.made_up_language import pairs
from support.workers import workers
from unmask.common.errors import InputError
from unmask.runs.ray_cluster import RayWorkers
from unmask.studies.translation.masked_pairs import PairModel
from unmask.studies.translation.recipe import TranslateSettings
from unmask.studies.translation.translating import shares


def backwards(function: Any, items: Any, workers: Any, setup: Any) -> Any:
    """The engine in this process, the last item first."""
    listed, before = list(items), setup()
    for index in reversed(range(len(listed))):
        yield index, function(before, listed[index])


def sources(n: int) -> list[str]:
    lines, _ = pairs(n, words=6, seed=9)
    return [*lines[: n // 2], "", *lines[n // 2 :]]


@pytest.mark.parametrize(
    "options",
    [{"kernel": "mh", "sweeps": 2, "seed": 3}, {"decoder": "ancestral"}, {"decoder": "beam"}],
)
def test_shares_have_the_rows_of_one_process(
    masked: Path, causal: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; of several searches, those of sources that are searched together."""
    monkeypatch.setattr("unmask.runs.ray_cluster.ray_workers", lambda *_: RayWorkers(2, "cpu"))
    monkeypatch.setattr("unmask.studies.translation.translating.each", backwards)
    monkeypatch.setattr("unmask.studies.translation.translating.BEAM_ROWS", {"cpu": 20})
    options_of_both = {
        "model": causal if "beam" in options.values() else masked,
        "device": "cpu",
        **options,
    }
    local, seen = flat.translate(sources(12), **options_of_both), []
    shared = flat.translate(
        sources(12), **options_of_both, engine="ray:2", progress=lambda *report: seen.append(report)
    )
    assert shared.rows == local.rows
    assert shared.moves == local.moves
    assert seen[-1] == (12, 12, "translations")
    assert len(seen) > 2


def test_sources_of_one_search_go_together_and_others_to_all_workers() -> None:
    ids = [tuple(range(n)) for n in (3, 1, 2, 5, 4, 9, 7, 8)]
    beam, drawn = TranslateSettings(unmask.Beam(beam=64)), TranslateSettings()
    assert shares(beam, "cpu", ids, 2) == [[1, 2, 0, 4], [3, 6, 7, 5]]
    assert shares(drawn, "cpu", ids, 2) == [[place] for place in (1, 2, 0, 4, 3, 6, 7, 5)]
    assert shares(drawn, "cpu", ids, 1) == [[1, 2], [0, 4], [3, 6], [7, 5]]


def test_a_loaded_model_does_not_travel(masked: Path) -> None:
    with pytest.raises(InputError, match="workers load the model themselves: give its folder"):
        flat.translate(["a b"], model=PairModel.load(masked), engine="ray")


def test_a_killed_worker_changes_nothing(masked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    options: dict[str, Any] = {"model": masked, "device": "cpu", "kernel": "mh", "sweeps": 2}
    local, killed = flat.translate(sources(24), **options), []

    def kill_one(done: int, total: int, what: str = "") -> None:
        if not killed:
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)

    shared = flat.translate(sources(24), **options | {"device": "cpu,cpu"}, progress=kill_one)
    assert killed
    assert shared.rows == local.rows
    assert shared.moves == local.moves
