"""Runs: the same samples whatever the batch, wherever they were interrupted, and whenever they were lengthened."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas
import pytest
import torch

from unmask.errors import InputError
from unmask.sampling import chain as chain_module
from unmask.sampling.chain import load_run, sample
from unmask.sampling.markov_run import MarkovRun
from unmask.sampling.run_folder import RunFolder
from unmask.sampling.settings import DECODERS, MARKOV_KERNELS, SampleSettings

SMALL = {"chains": 5, "sweeps": 4, "lengths": (4, 6), "candidates": 3, "decoding_steps": 3, "seed": 7}


def same(one, other):
    pandas.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True), check_dtype=False)


@pytest.mark.parametrize("kernel", [*MARKOV_KERNELS, *DECODERS])
def test_samples_do_not_depend_on_how_many_chains_run_together(tiny, kernel):
    settings = SampleSettings(kernel=kernel, **SMALL)
    together, alone = sample(settings, tiny), sample(settings, tiny, together=1)
    assert list(together.samples.columns) == ["chain", "sweep", "text", "energy", "log_prob", "passes", "length", "ids"]
    assert len(together.samples) == 20 and set(together.samples["length"]) == {4, 6}
    same(together.samples, alone.samples)
    same(together.rates, alone.rates)


def test_samples_depend_on_the_seed(tiny):
    one, other = (sample(SampleSettings(**{**SMALL, "seed": seed}), tiny) for seed in (7, 8))
    assert one.samples["text"].tolist() != other.samples["text"].tolist()


class Killed(BaseException):
    """Stands for a kill: no handler of the run sees it."""


@pytest.mark.parametrize(
    ("kernel", "blow"),
    [
        ("mh", KeyboardInterrupt),
        ("mh", Killed),
        ("gibbs", Killed),
        ("tempering", KeyboardInterrupt),
        ("annealing", Killed),
        ("ancestral", KeyboardInterrupt),
    ],
)
def test_an_interrupted_run_goes_on_exactly(tiny, tmp_path, monkeypatch, kernel, blow):
    settings = SampleSettings(kernel=kernel, **{**SMALL, "sweeps": 5, "chains": 4})
    whole = sample(settings, tiny, tmp_path / "whole")
    monkeypatch.setattr(chain_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    rows, calls = chain_module._rows, []

    def hit(run, model):
        calls.append(1)
        if len(calls) in (3, 7):
            raise blow
        return rows(run, model)

    monkeypatch.setattr(chain_module, "_rows", hit)
    for _ in range(2):
        with pytest.raises(blow):
            sample(settings, tiny, tmp_path / "cut")
    resumed = sample(settings, tiny, tmp_path / "cut")
    same(resumed.samples, whole.samples)
    same(resumed.rates, whole.rates)
    same(resumed.starts, whole.starts)
    same(pandas.read_parquet(tmp_path / "cut" / "samples.parquet"), pandas.read_parquet(tmp_path / "whole" / "samples.parquet"))


def test_a_part_without_its_checkpoint_is_drawn_again(tiny, tmp_path, monkeypatch):
    settings = SampleSettings(**SMALL)
    whole = sample(settings, tiny)
    monkeypatch.setattr(chain_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    save, calls = np.savez, []

    def torn(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise Killed
        save(*args, **kwargs)

    monkeypatch.setattr(np, "savez", torn)
    with pytest.raises(Killed):
        sample(settings, tiny, tmp_path)
    assert len(list((tmp_path / "parts").iterdir())) == 3 and len(list((tmp_path / "checkpoints").iterdir())) == 1
    same(sample(settings, tiny, tmp_path).samples, whole.samples)


def test_more_sweeps_of_the_same_settings_go_on(tiny, tmp_path):
    short = SampleSettings(**SMALL)
    longer = SampleSettings(**{**SMALL, "sweeps": 7})
    sample(short, tiny, tmp_path / "grown")
    grown = sample(longer, tiny, tmp_path / "grown")
    same(grown.samples, sample(longer, tiny).samples)
    assert json.loads((tmp_path / "grown" / "settings.json").read_text())["sweeps"] == 7
    with pytest.raises(InputError, match="sweeps 7, not 4"):
        sample(short, tiny, tmp_path / "grown")


SCRIPT = """
import sys
from unmask.models.masked_lm import MaskedLM
from unmask.sampling import chain
from unmask.sampling.settings import SampleSettings
chain.SECONDS_BETWEEN_CHECKPOINTS = 0.05
model = MaskedLM.load(sys.argv[1], device="cpu")
chain.sample(SampleSettings(chains=3, sweeps=25, lengths=(6,), seed=3), model, sys.argv[2])
"""


def test_a_run_killed_for_real_goes_on_exactly(tiny, tiny_folder, tmp_path):
    out = tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tiny_folder), str(out)], env=environment)
    deadline = time.monotonic() + 120
    while not list(out.glob("checkpoints/*.npz")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(out.glob("checkpoints/*.npz")), "the run began"
    settings = SampleSettings(chains=3, sweeps=25, lengths=(6,), seed=3)
    same(sample(settings, tiny, out).samples, sample(settings, tiny).samples)


def test_a_checkpoint_from_other_settings_is_refused(tiny, tmp_path):
    sample(SampleSettings(**SMALL), tiny, tmp_path)
    for change, message in [
        ({"seed": 8}, "seed 7, not 8"),
        ({"energy": "raw"}, "energy norm, not raw"),
        ({"delayed": (1,)}, "delayed unset, not 1"),
    ]:
        with pytest.raises(InputError, match=message):
            sample(SampleSettings(**{**SMALL, **change}), tiny, tmp_path)
    with pytest.raises(InputError, match="weights"):
        with torch.no_grad():
            parameter = next(tiny.network.parameters())
            parameter.add_(1.0)
        try:
            sample(SampleSettings(**SMALL), tiny, tmp_path)
        finally:
            with torch.no_grad():
                parameter.sub_(1.0)


def test_two_runs_do_not_share_a_folder(tiny, tmp_path):
    with RunFolder(tmp_path, SampleSettings(**SMALL).to_dict()):
        with pytest.raises(InputError, match="another run is writing"):
            with RunFolder(tmp_path, SampleSettings(**SMALL).to_dict()):
                pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        sample(SampleSettings(**SMALL), tiny, tmp_path / "other")


def test_a_run_that_never_got_to_a_checkpoint_does_not_keep_its_folder(tiny, tmp_path, monkeypatch):
    def stopped(run):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MarkovRun, "begin", stopped)
        with pytest.raises(KeyboardInterrupt):
            sample(SampleSettings(**SMALL), tiny, tmp_path)
    other = SampleSettings(**{**SMALL, "seed": 8})
    same(sample(other, tiny, tmp_path).samples, sample(other, tiny).samples)
    assert json.loads((tmp_path / "settings.json").read_text())["seed"] == 8
    with pytest.raises(InputError, match="seed 8, not 7"):
        sample(SampleSettings(**SMALL), tiny, tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "settings.json").write_text('{"of": "another program"}')
    with pytest.raises(InputError, match="not empty and holds no run"):
        sample(other, tiny, tmp_path / "other")


def test_burn_in_and_thinning_choose_among_the_same_sweeps(tiny):
    everything = sample(SampleSettings(**{**SMALL, "sweeps": 9}), tiny).samples
    some = sample(SampleSettings(**{**SMALL, "sweeps": 9, "burn_in": 2, "thin": 3}), tiny).samples
    assert sorted(some["sweep"].unique()) == [5, 8]
    same(some, everything[everything["sweep"].isin([5, 8])])


def test_starts_from_texts_of_several_lengths(tiny):
    texts = ("the cat sat", "a dog ran under the tree", "the dog sat")
    run = sample(SampleSettings(start="texts", texts=texts, chains=4, sweeps=2), tiny)
    assert run.starts["text"].tolist() == [*texts, texts[0]]
    assert run.samples.groupby("chain")["length"].first().tolist() == [3, 6, 3, 3]


def test_random_starts_are_uniform_over_the_support(tiny):
    settings = SampleSettings(start="random", chains=60, sweeps=1, lengths=(8,))
    run = sample(settings, tiny)
    tokens = [i for ids in run.starts["ids"] for i in ids[1:-1]]
    counts = np.bincount(tokens, minlength=17)
    assert counts[:5].sum() == 0 and counts[5:].min() > 15


def test_templates_hold_their_tokens_and_allowed_sets(tiny):
    settings = SampleSettings(template="the [MASK] sat on [MASK] .", allowed=((2, ("cat", "dog")),), chains=6, sweeps=5)
    texts = sample(settings, tiny).samples["text"]
    assert all(
        text.split()[0] == "the" and text.split()[1] in ("cat", "dog") and text.split()[2:4] == ["sat", "on"] for text in texts
    )
    assert len(set(texts)) > 3


def test_user_terms_change_the_samples(tiny):
    cat = tiny.words.encode("cat")[1]

    def no_cats(ids):
        return 1000.0 * (ids == cat).sum(-1)

    settings = SampleSettings(chains=8, sweeps=6, lengths=(5,), burn_in=4, start="random")
    plain, without = sample(settings, tiny), sample(settings, tiny, user_terms=[no_cats])
    assert any("cat" in text.split() for text in plain.samples["text"])
    assert not any("cat" in text.split() for text in without.samples["text"])
    with pytest.raises(InputError, match="one number a text"):
        sample(settings, tiny, user_terms=[lambda ids: ids])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chains": 0}, "0 chains: give at least 1"),
        ({"sweeps": 0}, "0 sweeps"),
        ({"lengths": (0,)}, "at least one token"),
        ({"lengths": (40,)}, "42 tokens, special ones included: the model takes at most 16"),
        ({"burn_in": 4}, "leaves no sample"),
        ({"thin": 9}, "leaves no sample"),
        ({"seed": -1}, "seed -1"),
        ({"kernel": "magic"}, "use one of mh, gibbs"),
        ({"energy": "free"}, "use raw or norm"),
        ({"temperature": 0.0}, "not a positive number"),
        ({"proposal_temperature": -1.0}, "not a positive number"),
        ({"template": "the cat sat"}, "no blank"),
        ({"template": "the [MASK]", "allowed": ((2, ()),)}, "no token satisfies the constraint at position 2"),
        ({"template": "the [MASK]", "allowed": ((2, ("[SEP]",)),)}, "allow single tokens"),
        ({"template": "the [MASK]", "allowed": ((1, ("cat",)),)}, "not free: the blanks are at 2"),
        ({"template": "the [MASK]", "allowed": ((2, ("cat dog",)),)}, "2 tokens of the model"),
        ({"start": "texts", "texts": ()}, "empty"),
        ({"start": "texts", "texts": ("the [MASK]",)}, "has a blank"),
        ({"start": "texts", "texts": ("the zebra",)}, "no blank|special"),
        ({"kernel": "block", "block": 9, "lengths": (4,)}, "from 1 to 4"),
        ({"kernel": "tempering", "ladder": (2.0, 1.0)}, "rising"),
        ({"kernel": "annealing", "cold": 3.0}, "the first the higher"),
        ({"kernel": "pair-joint", "candidates": 0}, "at least one"),
        ({"kernel": "pair-joint", "construction": "magic"}, "use one of product"),
        ({"delayed": (3, 1)}, "rising"),
        ({"nucleus": 1.5}, "between 0 and 1"),
        ({"kernel": "mask-predict", "schedule": "square"}, "linear, cosine"),
        ({"kernel": "ancestral", "order": "inside-out"}, "random, left-to-right"),
    ],
)
def test_bad_input_is_refused_in_one_line(tiny, wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        sample(SampleSettings(**{**SMALL, **wrong}), tiny)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("parts/group-0000-00000004.parquet", "garbage", "damaged"),
        ("starts.parquet", "garbage", "damaged"),
        ("checkpoints/group-0000.npz", "garbage", "cannot be read"),
        ("settings.json", "{", "cannot be read"),
        ("settings.json", "[1]", "cannot be read"),
        ("settings.json", "{}", "lacks"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(tiny, tmp_path, file, content, message):
    sample(SampleSettings(**{**SMALL, "lengths": (4,)}), tiny, tmp_path)
    assert (tmp_path / file).is_file()
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        load_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_energies_of_samples_are_those_of_their_texts(tiny):
    from unmask.sampling.energy import energies

    for kernel in ("mh", "gibbs", "ancestral"):
        for energy in ("raw", "norm"):
            frame = sample(SampleSettings(kernel=kernel, energy=energy, chains=3, sweeps=2, lengths=(5,)), tiny).samples
            fresh = energies(tiny, torch.tensor(np.stack(frame["ids"])).long(), energy)
            assert np.allclose(frame["energy"], fresh.numpy(), atol=1e-4)


def test_passes_are_those_that_the_model_ran(tiny):
    settings = SampleSettings(chains=3, sweeps=3, lengths=(5,), kernel="sequential-block", block=3)
    run = sample(settings, tiny)
    group = MarkovRun(settings, chain_module.groups(settings, tiny)[0], chain_module.proposal_of(settings))
    group.begin()
    for _ in range(3):
        group.sweep()
    assert group.passes.count == int(group.spent.sum()) == int(run.samples.groupby("chain")["passes"].max().sum())


def test_an_unfinished_run_can_be_read(tiny, tmp_path, monkeypatch, interrupted_at):
    monkeypatch.setattr(chain_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with interrupted_at(2), pytest.raises(KeyboardInterrupt):
        sample(SampleSettings(**SMALL), tiny, tmp_path)
    run = load_run(tmp_path)
    assert run.samples["sweep"].max() == 2 and run.settings == SampleSettings(**SMALL)
    with pytest.raises(InputError, match="holds no run"):
        load_run(tmp_path / "nowhere")
