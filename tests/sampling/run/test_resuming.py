"""A run that goes on takes over its plan, whatever memory is free then, and knows the user's terms again."""

import pandas
import pytest
from tests.ray_workers import Here

from unmask.errors import InputError
from unmask.models.workers import Workers
from unmask.sampling.engine import memory
from unmask.sampling.engine.memory import chain_cost
from unmask.sampling.run import groups
from unmask.sampling.run.advance import draw_samples
from unmask.sampling.run.sharing import SharedChains
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template

SMALL = {"chains": 5, "sweeps": 4, "length": (4, 6), "seed": 7}
same = pandas.testing.assert_frame_equal


@pytest.fixture
def stopped(tiny, tmp_path, stop_at):
    """A run that was stopped in the middle; its settings and its folder."""
    settings = SampleSettings(**SMALL)
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path / "run", progress=stop_at(2))
    return settings, tmp_path / "run"


@pytest.fixture
def less_memory(tiny, monkeypatch):
    """From here on the default budget holds one chain, and none of its conditionals."""

    def happens():
        target = Target(tiny, blank_template(tiny, max(SMALL["length"])))
        monkeypatch.setattr(memory, "CPU_BYTES", chain_cost(SampleSettings(**SMALL), target, "nothing").one)

    return happens


@pytest.mark.parametrize("chains_at_once", [None, 3])
def test_a_run_goes_on_when_less_memory_is_free(tiny, stopped, less_memory, chains_at_once):
    settings, folder = stopped
    whole = draw_samples(settings, tiny)
    less_memory()
    fresh = draw_samples(settings, tiny, chains_at_once=chains_at_once)
    assert fresh.memory != whole.memory, "planned again, the run would be another one"
    run = draw_samples(settings, tiny, folder, chains_at_once=chains_at_once)
    same(run.samples, whole.samples, check_dtype=False)
    assert run.memory == whole.memory


def test_workers_go_on_when_less_memory_is_free(tiny, stopped, less_memory, monkeypatch):
    monkeypatch.setattr("unmask.models.workers.OnRay", Here)
    settings, folder = stopped
    whole = draw_samples(settings, tiny)
    less_memory()
    run = draw_samples(settings, tiny, folder, shared=SharedChains(settings, Workers(lambda: tiny, "cpu")))
    same(run.samples, whole.samples, check_dtype=False)


def test_a_plan_that_no_longer_fits_is_refused_with_a_way_out(tiny, stopped, monkeypatch):
    settings, folder = stopped
    monkeypatch.setattr(groups, "available_bytes", lambda device: 1000)
    monkeypatch.setattr(groups, "_refuse_too_many_samples", lambda *_: None)
    with pytest.raises(InputError, match="end what holds the memory, or give another --out folder and chains_at_once 1"):
        draw_samples(settings, tiny, folder)


@pytest.mark.parametrize("change", [{"length": (4, 5)}, {"chains": 6}, {"chains": 2}])
def test_other_settings_are_named_first(tiny, stopped, change):
    settings, folder = stopped
    name = next(iter(change))
    with pytest.raises(InputError, match=f"holds a run with {name} .*, not "):
        draw_samples(SampleSettings(**{**SMALL, **change}), tiny, folder)


@pytest.mark.parametrize("kernel", ["mh", "tempering", "ancestral"])
def test_another_function_of_the_same_name_is_noticed(tiny, tmp_path, stop_at, kernel):
    settings = SampleSettings(kernel=kernel, chains=4, sweeps=5, length=(5,), seed=3)

    def term(weight):
        return lambda ids: weight * (ids % 7).sum(-1)

    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path / "run", user_terms=[term(0.1)], progress=stop_at(2))
    with pytest.raises(InputError, match="holds a run whose user_terms have other values .*: give the same functions"):
        draw_samples(settings, tiny, tmp_path / "run", user_terms=[term(0.2)])
    run = draw_samples(settings, tiny, tmp_path / "run", user_terms=[term(0.1)])
    same(run.samples, draw_samples(settings, tiny, user_terms=[term(0.1)]).samples, check_dtype=False)
