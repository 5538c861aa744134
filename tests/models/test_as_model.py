"""A model by name is loaded once and shared, also by threads; forked children compute."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch

import unmask
from unmask.common.errors import InputError, ModelError
from unmask.models.load import CACHED, as_model, load, model_name
from unmask.models.masked_lm import MaskedLM


def test_an_object_is_itself_and_a_name_is_loaded_once(copied):
    model = as_model(copied)
    assert as_model(model) is model
    assert as_model(unmask.ModelSpec(copied, "cpu")) is model
    assert as_model(str(copied)) is model
    assert load(copied, device="cpu", dtype="float32") is model
    assert load(copied, dtype="float64").dtype == torch.float64
    assert MaskedLM.load(copied) is not model
    assert as_model() is as_model(None)


@pytest.mark.parametrize("returned", [None, 3, "a text", [1, 2], torch.nn.Linear(2, 2), MaskedLM])
def test_a_function_that_returns_no_model_is_named(returned):
    def mine():
        return returned

    message = "model the function mine returned .*, which is not a model: return what unmask.load"
    with pytest.raises(InputError, match=message):
        unmask.fill("A [MASK].", mine)


def test_a_folder_that_changed_is_read_again(copied):
    before = as_model(copied)
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.5}))
    after = as_model(copied)
    assert after is not before
    assert after.network.config.layer_norm_eps == 0.5


def test_only_the_last_few_are_kept(copied, tmp_path):
    import gc
    import weakref

    others = [shutil.copytree(copied, tmp_path / f"other{i}") for i in range(CACHED)]
    first = weakref.ref(as_model(copied))
    assert first() is as_model(copied)
    for other in others:
        as_model(other)
    gc.collect()
    assert first() is None


def test_a_refused_model_is_refused_every_time(copied):
    (copied / "model.safetensors").unlink()
    for _ in range(2):
        with pytest.raises(ModelError, match="no weights"):
            as_model(copied)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_four_threads_load_and_compute(checkpoint, tmp_path, kind):
    """Each thread loads models of its own and a shared one; all give the numbers of one thread."""
    folder = shutil.copytree(checkpoint(kind), tmp_path / kind)
    rows, where = torch.tensor([[2, 5, 7, 4, 13, 3]] * 3), torch.tensor([[3], [1], [2]])
    expected = MaskedLM.load(folder).logits(rows, where)

    def work(i):
        model = as_model(folder) if i % 2 else MaskedLM.load(folder)
        return model.logits(rows, where), model

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(16)))
    for logits, _ in results:
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert len({id(model) for i, (_, model) in enumerate(results) if i % 2}) == 1
    from transformers.utils import logging

    assert logging.get_verbosity() == logging.WARNING, "the settings of transformers came back"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes():
    """With more than one thread in the parent, a child's first product waits for threads that
    it does not have.
    """
    program = """
import os, sys, torch, unmask
torch.set_num_threads(2)
def best(): return unmask.fill("The [MASK] sat on the [MASK].", candidates=16).completions[0].text
before = best()
child = os.fork()
if not child:
    os._exit(0 if best() == before and torch.get_num_threads() == 1 else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert torch.get_num_threads() == 2 and best() == before
sys.exit(ended)
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    assert (
        subprocess.run([sys.executable, "-c", program], timeout=600, env=environment).returncode
        == 0
    )


def test_a_spec_has_its_name_and_a_function_none():
    assert model_name(partial(len)) == "in memory"
    assert model_name(partial(len, "folder")) == "in memory"
    assert model_name(unmask.ModelSpec()) == "bundled"
    assert model_name(unmask.ModelSpec("folder", device="cpu")) == "folder"
