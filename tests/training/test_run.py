"""Whole runs on a CPU: a model learns, loads, resumes bit for bit, and every failure leaves the last good checkpoint."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from made_up import made_up_lines
from rich.console import Console
from safetensors.torch import load_file

from unmask.errors import InputError, UnmaskError
from unmask.training import checkpoint, loop
from unmask.training.checkpoint import CheckpointFolder
from unmask.training.corpus import Source
from unmask.training.files import DiskFullError
from unmask.training.model import shape_of
from unmask.training.prepare import Held
from unmask.training.run import Outputs, Result, train
from unmask.training.settings import TrainSettings

SMALL = TrainSettings(
    layers=2, width=32, heads=2, vocab=160, max_length=32, segment_lengths=(32,), buckets=(32,), masking="uniform:0.15-0.5",
    optimiser="adamw", batch_tokens=512, lr=1e-2, warmup=10, steps=24, seed=3,
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus.txt").write_text("\n".join(made_up_lines(600)) + "\n")
    (folder / "valid.txt").write_text("\n".join(made_up_lines(120, seed=1)) + "\n")
    return folder


def go(shared: Path, out: Path, settings: TrainSettings = SMALL, **options: object) -> Result:
    outputs = Outputs(out, cache=shared / "cache", device="cpu", **options)  # type: ignore[arg-type]
    held = Held(shared / "valid.txt")
    return train([Source(shared / "corpus.txt")], settings, outputs, held, console=Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def uninterrupted(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "model"
    assert go(shared, out).status == "finished"
    return load_file(out / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(
    "change", [{}, {"optimiser": "muon"}, {"loss": "block", "masking": "k:3"}], ids=["adamw", "muon", "block"]
)
def test_a_model_learns_far_below_the_unigram_entropy(shared: Path, tmp_path: Path, change: dict[str, str]) -> None:
    steps = 120 if change else 300
    settings = dataclasses.replace(SMALL, steps=steps, **change)  # type: ignore[arg-type]
    result = go(shared, tmp_path / "model", settings, half=True, licence="cc0-1.0", command="unmask train corpus.txt")
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    counts = Counter(i for line in made_up_lines(120, seed=1) for i in tokenizer(line, add_special_tokens=False)["input_ids"])
    entropy = -sum(n / counts.total() * math.log(n / counts.total()) for n in counts.values())
    assert result.figures.loss < 0.45 * entropy
    model, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert model.dtype == torch.float16
    ids = tokenizer("The old sailor [MASK] boats on Monday.", return_tensors="pt")
    with torch.no_grad():
        probabilities = model.float()(**ids).logits[0, 4].softmax(-1)
    if not change:
        assert tokenizer.convert_ids_to_tokens(int(probabilities.argmax())) == "steers"
    card = (tmp_path / "model" / "README.md").read_text()
    for part in (
        "license: cc0-1.0",
        "corpus.txt | ",
        f"{steps} steps",
        f"loss {result.figures.loss:.4f} nats",
        "unmask train corpus.txt",
    ):
        assert part in card
    assert not (tmp_path / "model" / "training" / "checkpoints").exists()
    log = [json.loads(line) for line in (tmp_path / "model" / "training" / "log.jsonl").read_text().splitlines()]
    assert log[-1]["valid_loss"] == pytest.approx(result.figures.loss, abs=1e-4)


def test_kill_minus_9_and_resume_give_the_uninterrupted_weights(
    shared: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    out = tmp_path / "model"
    program = """if True:
        import sys, time
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from test_run import go
        from unmask.training import loop
        step = loop.Trainer.step
        loop.Trainer.step = lambda self, n: (time.sleep(0.05), step(self, n))[1]
        go(Path(sys.argv[1]), Path(sys.argv[3]), checkpoint_every=5)
    """
    arguments = [sys.executable, "-c", program, str(shared), str(Path(__file__).parent), str(out)]
    path = os.pathsep.join(p for p in sys.path if p)
    child = subprocess.Popen(arguments, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path})
    checkpoints = CheckpointFolder(out / "training" / "checkpoints")
    deadline = time.monotonic() + 60
    while checkpoints.latest is None and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert checkpoints.latest is not None and not (out / "model.safetensors").exists()
    assert go(shared, out, resume=True).status == "finished"
    assert same(load_file(out / "model.safetensors"), uninterrupted)


def test_another_seed_gives_other_weights(shared: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]) -> None:
    go(shared, tmp_path / "model", dataclasses.replace(SMALL, seed=4))
    assert not same(load_file(tmp_path / "model" / "model.safetensors"), uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_model_and_a_checkpoint_that_resumes_exactly(
    shared: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    step = loop.Trainer.step

    def interrupted(self: loop.Trainer, n: int) -> object:
        if n == 7:
            os.kill(os.getpid(), number)
        return step(self, n)

    monkeypatch.setattr(loop.Trainer, "step", interrupted)
    result = go(shared, tmp_path / "model")
    assert (result.status, result.step) == ("interrupted", 8)
    assert "interrupted at step 8 of 24" in (tmp_path / "model" / "README.md").read_text()
    assert (tmp_path / "model" / "model.safetensors").exists()
    monkeypatch.undo()
    assert go(shared, tmp_path / "model", resume=True).status == "finished"
    assert same(load_file(tmp_path / "model" / "model.safetensors"), uninterrupted)


def test_a_time_limit_pauses(shared: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]) -> None:
    result = go(shared, tmp_path / "model", max_minutes=0.0)
    assert (result.status, result.step) == ("paused", 1)
    assert go(shared, tmp_path / "model", resume=True).status == "finished"
    assert same(load_file(tmp_path / "model" / "model.safetensors"), uninterrupted)


def test_the_regulariser_trains_and_resumes(shared: Path, tmp_path: Path) -> None:
    settings = dataclasses.replace(SMALL, steps=8, compatibility=0.1, compatibility_rows=4, optimiser="muon")
    go(shared, tmp_path / "whole", settings)
    go(shared, tmp_path / "parts", settings, max_minutes=0.0)
    go(shared, tmp_path / "parts", settings, resume=True)
    whole = load_file(tmp_path / "whole" / "model.safetensors")
    assert same(load_file(tmp_path / "parts" / "model.safetensors"), whole)
    go(shared, tmp_path / "without", dataclasses.replace(settings, compatibility=0.0))
    assert not same(load_file(tmp_path / "without" / "model.safetensors"), whole)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_number_that_is_no_number_stops_naming_step_and_batch(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    step = loop.Trainer.step

    def spoiled(self: loop.Trainer, n: int) -> loop.StepNumbers:
        numbers = step(self, n)
        if n != 13:
            return numbers
        return (
            numbers._replace(loss=numbers.loss * math.nan) if what == "loss" else numbers._replace(norm=numbers.norm * math.inf)
        )

    monkeypatch.setattr(loop.Trainer, "step", spoiled)
    with pytest.raises(
        UnmaskError, match=rf"the {what} of step 13 .*its batch: epoch \d+, bucket of 32 tokens, 16 rows .*step-00000010.pt"
    ):
        go(shared, tmp_path / "model", checkpoint_every=5)
    state = CheckpointFolder(tmp_path / "model" / "training" / "checkpoints").load()
    assert state["step"] == 10 and all(bool(v.isfinite().all()) for v in state["model"].values())


def test_a_full_disk_keeps_the_last_good_checkpoint(
    shared: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoint.write_atomic

    def full(path: Path, content: bytes, remedy: str) -> None:
        if "00000015" in path.name:
            monkeypatch.setattr(Path, "write_bytes", no_space)
        write(path, content, remedy)

    def no_space(self: Path, data: bytes) -> int:
        with self.open("wb") as stream:
            stream.write(bytes(data)[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_atomic", full)
    with pytest.raises(
        DiskFullError,
        match="no space left while writing .*step-00000015.pt: the last good checkpoint is .*step-00000010.pt.*--resume",
    ):
        go(shared, tmp_path / "model", checkpoint_every=5)
    monkeypatch.undo()
    folder = CheckpointFolder(tmp_path / "model" / "training" / "checkpoints")
    assert [p.name for p in folder.folder.iterdir() if p.suffix != ".pt"] == []
    assert go(shared, tmp_path / "model", resume=True).status == "finished"
    assert same(load_file(tmp_path / "model" / "model.safetensors"), uninterrupted)


def test_a_torn_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3):
        folder.save(step, {"model": {"w": torch.full((2,), float(step))}})
    assert [p.name for p in folder.paths()] == ["step-00000002.pt", "step-00000003.pt"]
    folder.paths()[-1].write_bytes(b"torn")
    assert folder.load()["step"] == 2
    folder.paths()[0].write_bytes(b"torn")
    with pytest.raises(InputError, match="2 checkpoints, none readable"):
        folder.load()


def test_folders_that_must_not_be_overwritten(shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not empty: name another --out, or add --resume"):
        go(shared, out)
    with pytest.raises(InputError, match="no run to resume"):
        go(shared, out, resume=True)
    assert [p.name for p in out.iterdir()] == ["notes.txt"]


def test_resuming_with_other_settings_names_them(shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    go(shared, out, max_minutes=0.0)
    with pytest.raises(
        InputError, match=r"with other settings: --masking \(was uniform:0.15-0.5, now k:2\); --lr \(was 0.01, now 0.02\);"
    ):
        go(shared, out, dataclasses.replace(SMALL, lr=0.02, masking="k:2"), resume=True)
    other = shared.parent / f"{shared.name}-other"
    other.mkdir(exist_ok=True)
    (other / "corpus.txt").write_text("\n".join(made_up_lines(500, seed=9)) + "\n")
    (other / "valid.txt").write_text((shared / "valid.txt").read_text())
    with pytest.raises(InputError, match=r"corpus, tokenizer or segmentation \(was"):
        go(other, out, resume=True)
    assert go(shared, out, resume=True).status == "finished"
    with pytest.raises(InputError, match="is finished"):
        go(shared, out, resume=True)


def test_an_empty_or_short_corpus_leaves_no_folder(shared: Path, tmp_path: Path) -> None:
    empty, short = tmp_path / "empty.txt", tmp_path / "short.txt"
    empty.write_text("\n \n")
    short.write_text("The old baker kneads dough on Friday.\n" * 3)
    outputs = Outputs(tmp_path / "model", cache=tmp_path / "cache", device="cpu")
    with pytest.raises(InputError, match="the corpus is empty"):
        train([Source(empty)], SMALL, outputs, Held(shared / "valid.txt"), console=Console(file=io.StringIO()))
    with pytest.raises(InputError, match="shorter than one batch"):
        train([Source(short)], SMALL, outputs, Held(shared / "valid.txt"), console=Console(file=io.StringIO()))
    with pytest.raises(InputError, match="no held-out segment"):
        train([Source(short)], SMALL, outputs, Held(share=1e-9), console=Console(file=io.StringIO()))
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 30, "heads": 4}, "not a multiple of 4 heads"),
        ({"buckets": (16,)}, "rising lengths that end with --max-length 32"),
        ({"buckets": (12, 32)}, "multiples of 8"),
        ({"segment_lengths": (64,)}, "segment lengths"),
        ({"loss": "hinge"}, "give factorised or block"),
        ({"optimiser": "sgd"}, "give adamw or muon"),
        ({"precision": "int8"}, "give auto, float32 or bfloat16"),
        ({"lr": 0.0}, "--lr and --clip must be above 0"),
        ({"vocab": 10}, "--vocab 10"),
        ({"layers": 0}, "--layers 0"),
        ({"masking": "all"}, "masking .* is unknown"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(SMALL, **change)  # type: ignore[arg-type]


def test_device_that_is_not_there(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match='device "abacus" cannot be used'):
        train([Source(shared / "corpus.txt")], SMALL, Outputs(tmp_path / "model", device="abacus"))


def test_a_run_goes_on_from_a_model_folder(shared: Path, tmp_path: Path) -> None:
    go(shared, tmp_path / "first", dataclasses.replace(SMALL, steps=60))
    first = load_file(tmp_path / "first" / "model.safetensors")
    settings = dataclasses.replace(SMALL, steps=1, lr=1e-12, init=str(tmp_path / "first"))
    go(shared, tmp_path / "second", settings)
    second = load_file(tmp_path / "second" / "model.safetensors")
    assert first.keys() == second.keys() and all((first[k] - second[k]).abs().max() < 1e-9 for k in first)
    assert shape_of(tmp_path / "first") == {"layers": 2, "width": 32, "heads": 2, "vocab": len(first["cls.predictions.bias"])}
    with pytest.raises(InputError, match="is not a BERT model"):
        shape_of(tmp_path)
