"""A run that goes on keeps its groups, and knows the user's terms again; a run is read at any
moment.
"""

import json
import shutil

import numpy as np
import pandas
import pytest

from support.sampling_cases import settings_of
from unmask.common.errors import InputError
from unmask.runs.folder import read_parts
from unmask.sampling.chains import sample_folder
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.sample_folder import load_run
from unmask.sampling.energies.with_terms import Energy

SMALL = {"chains": 5, "sweeps": 4, "length": (4, 6), "seed": 7}
same = pandas.testing.assert_frame_equal


@pytest.fixture
def stopped(tiny, tmp_path, stop_at):
    """A run that was stopped in the middle; its settings and its folder."""
    settings = settings_of(**SMALL)
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path / "run", progress=stop_at(2))
    return settings, tmp_path / "run"


@pytest.mark.parametrize("change", [{"length": (4, 5)}, {"chains": 6}, {"chains": 2}])
def test_other_settings_are_named_first(tiny, stopped, change):
    _, folder = stopped
    name = next(iter(change))
    with pytest.raises(InputError, match=f"holds a run with {name} .*, not "):
        draw_samples(settings_of(**{**SMALL, **change}), tiny, folder)


@pytest.mark.parametrize("sizes", [0, [0, 3], [2.5], "ab", [True, 2], -1])
def test_damaged_sizes_of_groups_are_refused(tiny, stopped, sizes):
    settings, folder = stopped
    file = folder / "settings.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "chains_at_once": sizes}))
    with pytest.raises(InputError, match=r"settings\.json' .* damaged \(chains_at_once ") as error:
        draw_samples(settings, tiny, folder)
    assert "\n" not in str(error.value)


def test_a_damaged_checkpoint_is_named(tiny, stopped):
    settings, folder = stopped
    checkpoint = folder / "checkpoints" / "group-0000.npz"
    arrays = dict(np.load(checkpoint))
    np.savez(checkpoint, **{**arrays, "spent": arrays["spent"][:-1]})
    with pytest.raises(InputError, match="group-0000.npz' is damaged .its 'spent' has shape"):
        draw_samples(settings, tiny, folder)


@pytest.mark.parametrize("kernel", ["mh", "block"])
def test_another_function_of_the_same_name_is_noticed(tiny, tmp_path, stop_at, kernel):
    settings = settings_of(kernel=kernel, chains=4, sweeps=5, length=(5,), seed=3)

    def term(weight):
        return lambda ids: weight * (ids % 7).sum(-1)

    with pytest.raises(KeyboardInterrupt):
        draw_samples(
            settings,
            tiny,
            tmp_path / "run",
            energy=Energy(user_terms=[term(0.1)]),
            progress=stop_at(2),
        )
    with pytest.raises(
        InputError,
        match="holds a run whose user_terms have other values .*: give the same functions",
    ):
        draw_samples(settings, tiny, tmp_path / "run", energy=Energy(user_terms=[term(0.2)]))
    run = draw_samples(settings, tiny, tmp_path / "run", energy=Energy(user_terms=[term(0.1)]))
    alone = draw_samples(settings, tiny, energy=Energy(user_terms=[term(0.1)]))
    same(run.samples.to_frame(), alone.samples.to_frame())


def test_an_unfinished_run_can_be_read(tiny, tmp_path, stop_at):
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings_of(**SMALL), tiny, tmp_path, progress=stop_at(2))
    run = load_run(tmp_path)
    assert run.samples.sweep.max() == 2
    assert run.settings == settings_of(**SMALL)
    with pytest.raises(InputError, match="holds no run"):
        load_run(tmp_path / "nowhere")


def test_a_run_that_goes_on_while_it_is_read_has_no_part_missing(
    tiny, tmp_path, stop_at, monkeypatch
):
    """A part and its checkpoint appear after the parts were listed."""
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings_of(**SMALL), tiny, tmp_path / "run", progress=stop_at(2))
    shutil.copytree(tmp_path / "run", tmp_path / "later")
    draw_samples(settings_of(**SMALL), tiny, tmp_path / "later")

    def listed(*args):
        parts = read_parts(*args)
        shutil.copytree(tmp_path / "later", tmp_path / "run", dirs_exist_ok=True)
        return parts

    monkeypatch.setattr(sample_folder, "read_parts", listed)
    assert load_run(tmp_path / "run").samples.sweep.max() == 2
    monkeypatch.undo()
    assert load_run(tmp_path / "run").samples.sweep.max() == SMALL["sweeps"]
