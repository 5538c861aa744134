"""Whole runs, each of whose files was cut short: they go on to the same result, or say in one
line what to do, and that works.
"""

import shutil
import warnings

import numpy as np
import pandas
import pytest

import unmask
from support import flat
from unmask.common.errors import InputError
from unmask.sampling.chains.drawing import draw_samples
from unmask.sampling.settings import SampleSettings

TEXTS = ["the cat sat on the mat .", "a dog ran under the tree .", "the dog sat ."]


def sampled(tiny, out):
    draw_samples(SampleSettings(chains=2, sweeps=3, length=(3,)), tiny, out)
    return pandas.read_parquet(out / "samples.parquet").to_csv()


def scored(tiny, out):
    unmask.score(TEXTS, "pll,any_order", model=tiny, out=out)
    return (out / "scores.jsonl").read_bytes()


def trained(tiny, out, **more):
    options = {"layers": 1, "width": 8, "heads": 2, "vocab": 64, "max_length": 16}
    options |= {"batch_tokens": 32, "steps": 4, "device": "cpu", "valid": TEXTS}
    flat.train(TEXTS * 30, out=out, **options, **more)
    return (out / "model.safetensors").read_bytes()


def paused(tiny, out):
    trained(tiny, out, max_minutes=0)


RUNS = {
    "sample": (sampled, sampled, 3),
    "score": (scored, scored, 4),
    "train": (paused, trained, 2),
}
"""How a run begins and how it goes on, and at how many places each of its files is cut."""


@pytest.mark.parametrize("name", RUNS)
def test_a_cut_file_is_told_with_what_helps_or_does_not_matter(tiny, tmp_path, name):
    begin, go_on, cuts = RUNS[name]
    kept, out = tmp_path / "kept", tmp_path / "run"
    begin(tiny, kept)
    expected = go_on(tiny, shutil.copytree(kept, tmp_path / "whole"))
    refused = 0
    for path in [
        path.relative_to(kept)
        for path in sorted(kept.rglob("*"))
        if path.is_file() and path.name != ".lock"
    ]:
        whole = (kept / path).read_bytes()
        for cut in sorted(set(np.linspace(0, len(whole) - 1, cuts).astype(int))):
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(kept, out)
            (out / path).write_bytes(whole[:cut])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    assert go_on(tiny, out) == expected, (path, cut)
                except InputError as error:
                    refused += 1
                    help_works(error, out, path)
                    assert "delete" not in str(error) or go_on(tiny, out) == expected, (path, cut)
    assert refused > cuts / 2


def help_works(error, out, path):
    """Do what the message says: delete the file, and the group's checkpoint where it names that
    too.
    """
    message = str(error)
    assert "\n" not in message, message
    assert path.name in message or str(out) in message, message
    assert "delete" in message or "another folder" in message, message
    if "delete" in message:
        (out / path).unlink()
        if "its group's file in checkpoints" in message:
            (out / "checkpoints" / f"{path.stem.rpartition('-')[0]}.npz").unlink()
