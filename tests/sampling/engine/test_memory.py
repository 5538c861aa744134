"""Memory: the same chains whatever is kept of conditionals, and as many side by side as fit."""

import json

import pytest
import torch

from support.sampling_cases import settings_of
from unmask.common.errors import InputError
from unmask.runs.ray_cluster import RayWorkers
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.groups import group_runs
from unmask.sampling.chains.sample_folder import load_run
from unmask.sampling.engine.memory import chains_that_fit
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.mh import MH
from unmask.sampling.target import Target, blank_template

SETTINGS = {"chains": 3, "sweeps": 3, "length": (6,), "passes": 3}


@pytest.mark.parametrize("kernel", ["mh", "entropy-bound"])
@pytest.mark.parametrize("keeps", ["logits", "states"])
def test_chains_that_fit_grow_with_the_memory(tiny, kernel, keeps):
    method, target = (
        settings_of(kernel=kernel, **SETTINGS).kernel,
        Target(tiny, blank_template(tiny, 6)),
    )
    fitting = [chains_that_fit(method, target, keeps, 2**power) for power in range(30)]
    assert fitting[0] == 1
    assert fitting == sorted(fitting)
    width = tiny.vocab_size if keeps == "logits" else tiny.cost.width
    assert 0.5 < fitting[-1] * 2 * 6 * width * 4 / 2**29 < 1 or keeps == "logits", (
        "conditionals of a text and of its proposal"
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_workers_get_a_group_each_by_the_memory_of_their_device(tiny, device):
    settings = settings_of(**{**SETTINGS, "chains": 700})
    assert [
        len(run.group.chains) for run in group_runs(settings, tiny, workers=RayWorkers(3, device))
    ] == [234, 234, 232]


def test_kept_states_give_the_same_chain(tiny):
    target = Target(tiny, blank_template(tiny, 6))
    ids = torch.randint(5, 17, (5, 8), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    states = []
    for form in ("logits", "states"):
        kernel = MH().on(target, Passes(tiny, form=form))
        state, streams = kernel.init(ids)[0], ChainStreams(2, range(5))
        for step in range(30):
            kernel.step(state, streams.at(0, step), torch.full((5, 1), step % 6))
        states.append(state)
    assert torch.equal(states[0].ids, states[1].ids)
    assert not torch.equal(states[0].ids, ids)
    assert torch.allclose(states[0].energy, states[1].energy, atol=1e-4)
    assert states[1].outputs.shape[2] == tiny.cost.width


def test_a_run_of_another_random_stream_is_not_continued_but_read(tiny, tmp_path):
    settings = settings_of(**SETTINGS)
    draw_samples(settings, tiny, tmp_path)
    file = tmp_path / "settings.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in stored.items() if name != "stream"}))
    with pytest.raises(InputError, match="holds a run with stream None, not 'philox4x32-10'"):
        draw_samples(settings, tiny, tmp_path)
    assert len(load_run(tmp_path).samples) == 9
