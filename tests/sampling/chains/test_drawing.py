"""Runs: the same samples whatever the batch, wherever they were interrupted, and whenever they
were lengthened.
"""

import json
import shutil
from copy import copy

import numpy as np
import pandas
import pytest
import torch

from support.enumeration import energies
from support.sampling_cases import settings_of
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.chains.sample_folder import load_run
from unmask.sampling.kernels.kernel import KERNELS
from unmask.verbs.diagnose import diagnosis_of

SMALL = {"chains": 5, "sweeps": 4, "length": (4, 6), "passes": 3, "seed": 7}


def same(one, other):
    """Samples are equal, bit for bit."""
    pandas.testing.assert_frame_equal(one.to_frame(), other.to_frame())


@pytest.mark.parametrize("kernel", KERNELS)
def test_samples_do_not_depend_on_how_many_chains_run_at_once(tiny, kernel):
    settings = settings_of(kernel=kernel, **{**SMALL, "chains": 3})
    together, alone = draw_samples(settings, tiny), draw_samples(settings, tiny, chains_at_once=1)
    assert list(together.samples.to_frame().columns) == [
        "chain",
        "sweep",
        "text",
        "energy",
        "passes",
        "length",
        "ids",
    ]
    assert len(together.samples) == 12
    assert set(together.samples.length.tolist()) == {4, 6}
    same(together.samples, alone.samples)
    assert together.rates == alone.rates
    assert together.starts == alone.starts


class Killed(BaseException):
    """Stands for a kill: no handler of the run sees it."""


@pytest.mark.parametrize(
    ("kernel", "blow"),
    [
        ("mh", KeyboardInterrupt),
        ("mh", Killed),
        ("gibbs", Killed),
        ("block", Killed),
    ],
)
def test_an_interrupted_run_goes_on_exactly(tiny, tmp_path, stop_at, kernel, blow):
    """Five sweeps of two groups, stopped in the first and in the second, where each sweep
    leaves a checkpoint.
    """
    settings = settings_of(kernel=kernel, **{**SMALL, "sweeps": 5, "chains": 4})
    whole = draw_samples(settings, tiny, tmp_path / "whole")
    for sweeps in (3, 7):
        with pytest.raises(blow):
            draw_samples(
                settings,
                tiny,
                tmp_path / "cut",
                progress=stop_at(sweeps, blow),
                seconds_between_checkpoints=0.0,
            )
    resumed = draw_samples(settings, tiny, tmp_path / "cut")
    same(resumed.samples, whole.samples)
    assert resumed.rates == whole.rates
    assert resumed.starts == whole.starts
    cut, uncut = (
        json.dumps(diagnosis_of(load_run(tmp_path / name)).to_dict())  # NaN is not equal to itself
        for name in ("cut", "whole")
    )
    assert cut == uncut
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(tmp_path / "cut" / "samples.parquet"),
        pandas.read_parquet(tmp_path / "whole" / "samples.parquet"),
    )
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(tmp_path / "cut" / "samples.parquet"), whole.samples.to_frame()
    )


def test_a_run_that_goes_on_reports_the_sweeps_that_were_done(tiny, tmp_path, stop_at):
    """Two groups of four sweeps, stopped in the second; a run that is done has nothing to do."""
    settings = settings_of(**SMALL)
    reports = []

    def report(done, total, what=""):
        reports.append((done, total))

    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path, progress=stop_at(5))
    draw_samples(settings, tiny, tmp_path, progress=report)
    assert reports == [(0, 8), (4, 8), (5, 8), (6, 8), (7, 8), (8, 8)]
    reports.clear()
    draw_samples(settings, tiny, tmp_path, progress=report)
    assert reports == [(0, 8), (4, 8), (8, 8)]


def test_an_interrupt_in_the_burn_in_leaves_a_checkpoint(tiny, tmp_path, stop_at):
    settings = settings_of(**{**SMALL, "sweeps": 6, "burn_in": 4})
    with pytest.raises(KeyboardInterrupt):
        draw_samples(settings, tiny, tmp_path, progress=stop_at(3))
    assert int(np.load(tmp_path / "checkpoints" / "group-0000.npz")["done"]) == 3
    same(draw_samples(settings, tiny, tmp_path).samples, draw_samples(settings, tiny).samples)


def test_a_part_without_its_checkpoint_is_drawn_again(tiny, tmp_path, stop_at):
    """A kill between the two files: the part of sweep 3 is there, the checkpoint is that of
    sweep 2.
    """
    settings = settings_of(**SMALL)
    for sweeps in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            draw_samples(
                settings,
                tiny,
                tmp_path / "run",
                progress=stop_at(sweeps),
                seconds_between_checkpoints=0.0,
            )
        shutil.copytree(tmp_path / "run" / "checkpoints", tmp_path / f"checkpoints-{sweeps}")
    shutil.copytree(
        tmp_path / "checkpoints-2", tmp_path / "run" / "checkpoints", dirs_exist_ok=True
    )
    assert len(list((tmp_path / "run" / "parts").iterdir())) == 3
    same(
        draw_samples(settings, tiny, tmp_path / "run").samples, draw_samples(settings, tiny).samples
    )


def test_more_sweeps_of_the_same_settings_go_on(tiny, tmp_path):
    short = settings_of(**SMALL)
    longer = settings_of(**{**SMALL, "sweeps": 7})
    draw_samples(short, tiny, tmp_path / "grown")
    grown = draw_samples(longer, tiny, tmp_path / "grown")
    same(grown.samples, draw_samples(longer, tiny).samples)
    assert json.loads((tmp_path / "grown" / "settings.json").read_text())["sweeps"] == 7
    with pytest.raises(InputError, match="sweeps 7, not 4"):
        draw_samples(short, tiny, tmp_path / "grown")


def test_a_run_with_other_settings_or_weights_is_refused(tiny, tiny_folder, tmp_path):
    draw_samples(settings_of(**SMALL), tiny, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for change, message in [
        ({"seed": 8}, "seed 7, not 8"),
        ({"energy": "raw"}, "energy 'norm', not 'raw'"),
        ({"scan": "fixed"}, "scan 'permutation', not 'fixed'"),
    ]:
        with pytest.raises(InputError, match=message):
            draw_samples(settings_of(**{**SMALL, **change}), tiny, tmp_path)
    other = MaskedLM.load(tiny_folder, device="cpu")
    with torch.no_grad():
        next(iter(other.network.parameters())).view(-1)[-1] += 1e-6
    with pytest.raises(InputError, match="model 'in memory"):
        draw_samples(settings_of(**SMALL), other, tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}, (
        "nothing was touched"
    )


def test_burn_in_and_thinning_choose_among_the_same_sweeps(tiny):
    everything = draw_samples(settings_of(**{**SMALL, "sweeps": 9}), tiny).samples
    some = draw_samples(
        settings_of(**{**SMALL, "sweeps": 9, "burn_in": 2, "thin": 3}), tiny
    ).samples
    assert set(some.sweep.tolist()) == {5, 8}
    same(some, everything.of(np.isin(everything.sweep, [5, 8])))


def test_random_starts_are_uniform_over_the_support(tiny):
    settings = settings_of(start="random", chains=60, sweeps=1, length=(8,))
    run = draw_samples(settings, tiny)
    tokens = [token for row in run.starts for token in row["ids"][1:-1]]
    counts = np.bincount(tokens, minlength=17)
    assert counts[:5].sum() == 0
    assert counts[5:].min() > 15


def test_templates_hold_their_tokens_and_allowed_sets(tiny):
    settings = settings_of(
        template="the [MASK] sat on [MASK] .", allow={1: ["cat", "dog"]}, chains=6, sweeps=5
    )
    texts = draw_samples(settings, tiny).samples.text
    assert all(
        text.split()[0] == "the"
        and text.split()[1] in ("cat", "dog")
        and text.split()[2:4] == ["sat", "on"]
        for text in texts
    )
    assert len(set(texts)) > 3


def test_energies_of_samples_are_those_of_their_texts(tiny):
    for kernel in ("mh", "gibbs"):
        for energy in ("raw", "norm"):
            samples = draw_samples(
                settings_of(kernel=kernel, energy=energy, chains=3, sweeps=2, length=(5,)), tiny
            ).samples
            fresh = energies(tiny, torch.tensor(np.stack(samples.ids)).long(), energy)
            assert np.allclose(samples.energy, fresh.numpy(), atol=1e-4)


def test_passes_are_those_that_the_model_is_asked_for(tiny):
    """Calls are filled up to a fixed number of rows."""
    settings = settings_of(chains=8, sweeps=3, length=(5,), kernel="sequential-block", block_size=3)
    counted, rows = copy(tiny), []
    counted.logits_at = lambda ids, positions: rows.append(len(ids)) or tiny.logits(ids, positions)
    run = draw_samples(settings, counted)
    passes = int(run.samples.last_of_each_chain().passes.sum())
    assert run.rates_of("scoring_passes") == 0
    assert passes <= sum(rows) <= passes + 7 * 100
