"""Whole runs on a CPU: a model learns, loads, resumes bit for bit, and every failure leaves the
last good checkpoint.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from support import flat
from support.command_runner import signals_heard
from support.made_up import made_up_lines
from unmask.common.errors import InputError, UnmaskError, UnmaskWarning
from unmask.studies.training.checkpoint import Checkpoint
from unmask.studies.training.trainer import Trainer

SMALL: dict[str, Any] = {
    "layers": 2,
    "width": 32,
    "heads": 2,
    "vocab": 160,
    "max_length": 32,
    "masking": "uniform:0.15-0.5",
    "optimiser": "adamw",
    "batch_tokens": 512,
    "lr": 1e-2,
    "warmup": 10,
    "steps": 24,
    "seed": 3,
    "device": "cpu",
}

NO_SHAPE: dict[str, Any] = {"layers": None, "width": None, "heads": None, "vocab": None}
"""For a run that starts from a model, which has a shape."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus.txt").write_text("\n".join(made_up_lines(600)) + "\n")
    (folder / "valid.txt").write_text("\n".join(made_up_lines(120, seed=1)) + "\n")
    return folder


def go(shared, out, **options):
    settings = {"valid": shared / "valid.txt", **SMALL, **options}
    return flat.train(shared / "corpus.txt", out=out, **settings)


@pytest.fixture(scope="module")
def uninterrupted(shared, tmp_path_factory):
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "model"
    assert go(shared, out).finished
    return load_file(out / "model.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def weights(out):
    return load_file(out / "model.safetensors")


def checkpoint_of(out):
    return out / "training" / "checkpoint.pt"


@pytest.mark.parametrize(
    "change",
    [{}, {"optimiser": "muon"}, {"loss": "block", "masking": "k:3"}],
    ids=["adamw", "muon", "block"],
)
def test_a_model_learns_far_below_the_unigram_entropy(shared, tmp_path, change):
    steps = 120 if change else 300
    out = tmp_path / "model"
    made = go(shared, out, steps=steps, **change)
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(out)
    counts = Counter(
        i
        for line in made_up_lines(120, seed=1)
        for i in tokenizer(line, add_special_tokens=False)["input_ids"]
    )
    entropy = -sum(n / counts.total() * math.log(n / counts.total()) for n in counts.values())
    assert made.validation.loss < 0.45 * entropy
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.dtype == torch.float32
    ids = tokenizer("The old sailor [MASK] boats on Monday.", return_tensors="pt")
    with torch.no_grad():
        probabilities = model.float()(**ids).logits[0, 4].softmax(-1)
    if not change:
        assert tokenizer.convert_ids_to_tokens(int(probabilities.argmax())) == "steers"
    card = (out / "README.md").read_text()
    for part in (
        "corpus.txt | ",
        f"{steps} steps",
        f"loss {made.validation.loss:.4f} nats",
        "layers: 2",
        "lr: 0.01",
    ):
        assert part in card
    assert not checkpoint_of(out).exists()
    log = made.to_frame()
    assert log["valid_loss"].dropna().iloc[-1] == pytest.approx(made.validation.loss, abs=1e-4)
    assert log["step"].is_monotonic_increasing
    assert log["step"].iloc[-1] == steps
    assert json.loads(json.dumps(made.to_dict()))["validation"]["loss"] == made.validation.loss
    assert f"finished at step {steps}" in made._repr_html_()


def test_texts_in_memory_train_the_model_of_their_file(shared, tmp_path, uninterrupted):
    options = {**SMALL, "out": tmp_path / "model"}
    made = flat.train(made_up_lines(600), valid=made_up_lines(120, seed=1), **options)
    assert made.finished
    assert same(weights(tmp_path / "model"), uninterrupted)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| 600 texts | " in card


def test_another_process_with_another_hash_seed_and_no_cache_gives_the_same_bits(
    shared, tmp_path, uninterrupted
):
    run_apart(
        shared, tmp_path / "model", {}, PYTHONHASHSEED="77", XDG_CACHE_HOME=str(tmp_path)
    ).wait()
    assert same(weights(tmp_path / "model"), uninterrupted)


def run_apart(shared, out, options, hold=False, **environment):
    program = """if True:
        import json, sys, time
        from pathlib import Path
        shared, out, options, hold = sys.argv[1:]
        from studies.training.test_run import checkpoint_of, go
        def wait(*report):
            while hold and checkpoint_of(Path(out)).exists():
                time.sleep(1)
        go(Path(shared), Path(out), progress=wait, **json.loads(options))
    """
    arguments = [
        program,
        str(shared),
        str(out),
        json.dumps(options),
        "hold" if hold else "",
    ]
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment}
    return subprocess.Popen([sys.executable, "-c", *arguments], env=environment)


def test_kill_minus_9_and_resume_give_the_uninterrupted_weights(shared, tmp_path, uninterrupted):
    out = tmp_path / "model"
    child = run_apart(shared, out, {}, hold=True)
    while not checkpoint_of(out).exists() and child.poll() is None:
        time.sleep(0.005)
    with pytest.raises(InputError, match="another run is writing to"):
        go(shared, out)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert checkpoint_of(out).exists()
    assert not (out / "model.safetensors").exists()
    made = go(shared, out)
    assert made.finished
    assert same(weights(out), uninterrupted)
    steps = made.to_frame()["step"]
    assert steps.is_monotonic_increasing
    assert steps.iloc[-1] == 24


@pytest.mark.filterwarnings("ignore:.*has not learned")
def test_the_callers_random_numbers_are_left_alone(shared, tmp_path):
    before = torch.get_rng_state()
    go(shared, tmp_path / "model", dropout=0.1, steps=2)
    assert torch.equal(before, torch.get_rng_state())


def interrupt_at(step, number=signal.SIGINT):
    """A progress callback that sends this process one signal."""
    sent: list[int] = []

    def report(done, total, what=""):
        if total and done >= step and not sent:
            sent.append(done)
            os.kill(os.getpid(), number)

    return report


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_model_and_a_checkpoint_that_resumes_exactly(
    shared, tmp_path, uninterrupted, number
):
    out = tmp_path / "model"
    with signals_heard():
        made = go(shared, out, progress=interrupt_at(7, number))
    assert made.status == "interrupted"
    assert 7 <= made.step <= 8
    assert f"interrupted at step {made.step} of 24" in (out / "README.md").read_text()
    assert (out / "model.safetensors").exists()
    assert go(shared, out).finished
    assert same(weights(out), uninterrupted)


def test_numbers_that_are_not_finite_stop_the_run_in_one_line(shared, tmp_path):
    go(shared, tmp_path / "first", steps=1)
    spoiled = tmp_path / "spoiled"
    (tmp_path / "first").rename(spoiled)
    huge = {
        name: tensor * 1e30 if "word_embeddings" in name else tensor
        for name, tensor in weights(spoiled).items()
    }
    save_file(huge, spoiled / "model.safetensors", {"format": "pt"})
    shape = NO_SHAPE
    with pytest.raises(
        UnmaskError,
        match=r"the loss of step 0 is not a finite number .rows .*"
        "there is no checkpoint yet; try a lower lr or a longer warmup",
    ):
        go(shared, tmp_path / "model", init=spoiled, **shape)
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_only_finite_numbers_make_a_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint.pt")
    checkpoint.save(1, {"model": {"w": torch.ones(3)}})
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(
            UnmaskError,
            match=r"w is not finite after step 2; the last good checkpoint is .*checkpoint.pt",
        ):
            checkpoint.save(2, {"model": {"v": torch.ones(2), "w": torch.tensor([1.0, bad])}})
    assert checkpoint.restore(lambda state: None) == 1


def test_a_full_memory_does_not_make_a_checkpoint_a_damaged_one(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint.pt")
    checkpoint.save(1, {"model": {"w": torch.ones(3)}})

    def load(state):
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        checkpoint.restore(load)


def test_a_full_disk_keeps_the_last_good_checkpoint(shared, tmp_path, uninterrupted, monkeypatch):
    out, written = tmp_path / "model", []
    write = Path.write_bytes

    def full(self, data):
        written.append("checkpoint" in self.name)
        if sum(written) < 15 or not written[-1]:
            return write(self, data)
        write(self, bytes(data)[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        InputError,
        match=("no space left on the disk of .*checkpoint.pt.* same command again$"),
    ):
        go(shared, out)
    monkeypatch.undo()
    assert Checkpoint(checkpoint_of(out)).restore(lambda state: None) == 14
    assert go(shared, out).finished
    assert same(weights(out), uninterrupted)


def damage(path, how):
    if how == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        state = torch.load(path, weights_only=True)
        if how == "keys":
            state.pop("optimisers", None)
        elif how == "shape":
            state["model"]["bert.embeddings.LayerNorm.weight"] = torch.ones(7)
        elif how == "moments":
            next(iter(state["optimisers"][0]["state"].values()))["exp_avg"] = torch.ones(7)
        elif how == "other":
            state["settings"]["lr"] = 1.0
        torch.save(state, path)


@pytest.fixture(scope="module")
def stopped_at_11(shared, tmp_path_factory):
    out = tmp_path_factory.mktemp("stopped") / "model"
    go(shared, out, progress=interrupt_at(11))
    return out


@pytest.mark.parametrize("how", ["torn", "keys", "shape", "moments", "other"])
def test_a_damaged_checkpoint_is_refused_and_deleting_it_helps(
    shared, tmp_path, uninterrupted, stopped_at_11, how
):
    out = shutil.copytree(stopped_at_11, tmp_path / "model")
    damage(checkpoint_of(out), how)
    with pytest.raises(InputError, match="is damaged .*: delete it to begin at the first step"):
        go(shared, out)
    if how == "torn":
        checkpoint_of(out).unlink()
        assert go(shared, out).finished
        assert same(weights(out), uninterrupted)


def test_a_run_of_another_corpus_and_a_finished_one_do_not_go_on(shared, tmp_path):
    out = tmp_path / "model"
    go(shared, out, max_minutes=0.0)
    with pytest.raises(InputError, match="holds a run with data .*, not "):
        flat.train(made_up_lines(500, seed=9), out=out, valid=shared / "valid.txt", **SMALL)
    assert go(shared, out).finished
    further = (
        f"out {str(out)!r} holds a training that is finished: to train its model further, name"
        f" another folder and give init={out}"
    )
    with pytest.raises(InputError, match=re.escape(further)):
        go(shared, out)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="is not empty: name another folder$"):
        go(shared, tmp_path / "notes")


def test_an_empty_or_short_corpus_leaves_no_folder(shared, tmp_path):
    short = ["The old baker kneads dough on Friday."] * 3
    options = {**SMALL, "out": tmp_path / "model"}
    for empty in ([], ["", "  \n"]):
        with pytest.raises(InputError, match="data is empty"):
            flat.train(empty, valid=shared / "valid.txt", **options)
    with pytest.raises(InputError, match="shorter than one batch"):
        flat.train(short, valid=shared / "valid.txt", **options)
    with pytest.raises(InputError, match="no segment is held out"):
        flat.train(short, valid_share=1e-9, **options)
    with pytest.raises(InputError, match="valid 2 texts has no text: give another file"):
        flat.train(short * 200, valid=["", " "], **options)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 30, "heads": 4}, "not a multiple of 4 heads"),
        (
            {"width": 1 << 16, "heads": 2, "layers": 1000},
            "take at least .* GB to train, and cpu has .* GB: give smaller",
        ),
        ({"max_length": 30}, "max_length 30 is not a multiple of 8: give one, for example 32"),
        ({"tokenizer": "/nowhere", "vocab": None}, "no tokenizer at /nowhere"),
        ({"init": "/nowhere", **NO_SHAPE}, "init '/nowhere' has no tokenizer.json"),
        ({"valid": "/nowhere.txt"}, "valid '/nowhere.txt' is not a file"),
    ],
)
def test_options_that_cannot_be(shared, tmp_path, change, message):
    with pytest.raises(UnmaskError, match=message) as told:
        go(shared, tmp_path / "model", **change)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "model").exists()


def test_a_run_goes_on_from_a_model_folder(shared, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    go(shared, first, steps=60)
    shape = NO_SHAPE
    go(shared, second, steps=1, lr=1e-12, init=first, **shape)
    assert weights(first).keys() == weights(second).keys()
    assert all((weights(first)[k] - weights(second)[k]).abs().max() < 1e-9 for k in weights(first))
    with pytest.raises(InputError, match="layers is not used with init: leave one of the two out"):
        go(shared, tmp_path / "third", init=first, **{**shape, "layers": 3})
    with pytest.raises(InputError, match="max_length 64 is more than the 32 positions"):
        go(shared, tmp_path / "third", init=first, max_length=64, **shape)
    further = {**shape, "steps": 1, "max_length": None}
    made = go(shared, tmp_path / "fourth", init=first, **further)
    assert made.settings.max_length == 32  # what the model has, since no length was given
    strange = ["Ω ψ ж щ."] * 400
    with pytest.warns(
        UnmaskWarning,
        match=r"57% of the corpus is \[UNK\].*: .* or leave out tokenizer and init, so that one",
    ):
        options = {**SMALL, **shape, "steps": 1, "init": first}
        flat.train(strange, out=tmp_path / "strange", valid=strange, **options)
    go(shared, tmp_path / "on", init=first, max_minutes=0.0, steps=3, **shape)
    with pytest.raises(InputError, match="holds a run with init "):
        go(shared, tmp_path / "on", init=second, steps=3, **shape)


@pytest.fixture(scope="module")
def first_model(shared, tmp_path_factory):
    return go(shared, tmp_path_factory.mktemp("first") / "model", steps=1).out


def test_the_settings_and_the_card_have_the_size_of_the_tokenizer_that_was_given(
    shared, first_model, tmp_path
):
    tokens = len(json.loads((first_model / "tokenizer.json").read_text())["model"]["vocab"])
    options = {**SMALL, "steps": 1, "vocab": None, "tokenizer": first_model}
    made = go(shared, tmp_path / "model", **options)
    assert made.settings.vocab == tokens
    assert f"vocab: {tokens}\n" in (made.out / "README.md").read_text()


def test_a_model_beside_another_vocabulary_is_not_trained_further(shared, first_model, tmp_path):
    folder = shutil.copytree(first_model, tmp_path / "copy")
    tokens = sorted(
        json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"].items(),
        key=lambda item: item[1],
    )
    (folder / "vocab.txt").write_text("\n".join(token for token, _ in reversed(tokens)))
    shape = NO_SHAPE
    with pytest.raises(UnmaskError, match="is not that of its vocabulary file"):
        go(shared, tmp_path / "model", steps=1, init=folder, **shape)


def test_a_trained_tokenizer_that_cannot_spell_the_corpus_asks_for_a_larger_vocab(tmp_path):
    texts = ["".join(map(chr, range(first, first + 6))) for first in range(0x4E00, 0x5200, 6)]
    options = {"out": tmp_path, "valid": texts, **SMALL, "steps": 2, "vocab": 64}
    with pytest.warns(
        UnmaskWarning, match=r"% of the corpus is \[UNK\].*: give a larger vocab than 64$"
    ):
        flat.train(texts, **options, max_minutes=0.0)
    with warnings.catch_warnings(record=True) as caught:
        flat.train(texts, **options)
    assert not [
        one for one in caught if "[UNK]" in str(one.message)
    ]  # nothing can be done about it then


def test_an_error_of_the_first_step_leaves_no_folder(shared, tmp_path, monkeypatch):
    def failing(self, step):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        go(shared, tmp_path / "new" / "model")
    assert not (tmp_path / "new").exists()


def test_a_model_of_few_tokens_is_one_to_start_from(tmp_path):
    texts = ["a b ab.", "b a ba."] * 100
    options = {**SMALL, "valid": texts, "steps": 1}
    first = flat.train(texts, out=tmp_path / "first", **options).out
    tokens = json.loads((first / "config.json").read_text())["vocab_size"]
    assert tokens < 64
    shape = NO_SHAPE
    made = flat.train(texts, out=tmp_path / "second", init=first, **{**options, **shape})
    assert made.finished
    assert made.settings.vocab == tokens
    with pytest.raises(
        InputError, match=f"vocab {tokens} is out of range: give a whole number, at least 64"
    ):
        flat.train(texts, out=tmp_path / "third", **{**options, "vocab": tokens})
