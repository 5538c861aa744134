"""Several processes train what one trains: in parts side by side, and in real processes that
start, end and fail together.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from support import flat
from support.made_up import made_up_lines
from support.together import SECONDS, started, together
from unmask.common.errors import InputError
from unmask.studies.training.corpus import prepare
from unmask.studies.training.masking.schemes import FixedRate
from unmask.studies.training.packed_text import PackedText
from unmask.studies.training.parallel_corpus import prepare_parallel
from unmask.studies.training.processes import Processes, device_of
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.text_sources import TextSource, parallel_sides
from unmask.studies.training.trainer import Trainer
from unmask.surfaces.cli import process
from unmask.surfaces.cli.process import AGAIN

SMALL: dict[str, Any] = {
    "layers": 1,
    "width": 16,
    "heads": 2,
    "vocab": 160,
    "max_length": 32,
    "batch_tokens": 512,
    "lr": 1e-2,
    "warmup": 1,
    "seed": 3,
    "optimiser": "adamw",
}
pytestmark = pytest.mark.filterwarnings("ignore:.*has not learned|.*has learned little")
ENDLESS = 10**6
"""Steps of a run that is stopped long before its end, however late the signal comes."""
LINES = made_up_lines(300)
REVERSED = [" ".join(reversed(line.split())) for line in LINES]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus.txt").write_text("\n".join(LINES) + "\n")
    (folder / "reversed.txt").write_text("\n".join(REVERSED) + "\n")
    return folder


def trainer_of(**options):
    settings = TrainSettings(**{**SMALL, "steps": 10, **options})
    if settings.parallel:
        prepared = prepare_parallel(parallel_sides((LINES, REVERSED)), settings, 0.1)
    else:
        prepared = prepare([TextSource("lines", None, tuple(LINES))], settings, 0.1)
    return Trainer(settings, prepared, torch.device("cpu"))


def gradient(trainer, processes):
    """Loss and gradient of one process' part of a step, and the number of asked positions in it."""
    trainer.processes = processes
    rows = -(-trainer.plan.rows // processes.size)
    trainer.capacity = trainer.objective.slots(
        rows, trainer.packed.length, trainer.packed.tokens_per_segment
    )
    text = PackedText.of(torch.from_numpy(trainer.plan.batch(0)), trainer.vocabulary)
    trainer.model.zero_grad()
    loss = trainer._loss(text, torch.Generator().manual_seed(7))
    loss.backward()
    gradients = [p.grad for p in trainer.parameters if p.grad is not None]
    task = trainer.objective.task(text, trainer.vocabulary, torch.Generator().manual_seed(7))
    return (
        float(loss.detach()),
        torch.cat([gradient.flatten().double() for gradient in gradients]),
        int(task.part(*processes.rows(len(text.ids))).predicted.sum()),
    )


OBJECTIVES = {
    "fixed": {"masking": FixedRate(0.3)},
    "block": {"loss": "block"},
    "causal": {"objective": "causal"},
    "pairs": {"parallel": True, "mask_source": 0.2, "max_length": 64},
}


@pytest.mark.parametrize("options", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_parts_of_a_step_add_up_to_the_step_of_one_process(options):
    trainer = trainer_of(**options)
    loss, whole, count = gradient(trainer, Processes())
    for size in (2, 3, 8):
        parts = [gradient(trainer, Processes(rank=rank, size=size)) for rank in range(size)]
        assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-5)
        error = (sum(part[1] for part in parts) - whole).norm() / whole.norm()
        assert error < 1e-5
        assert sum(part[2] for part in parts) == count
        if (
            count % size
        ):  # a mean of the processes' own means is another number: their counts of positions differ
            of_means = sum(part[1] * count / (part[2] * size) for part in parts)
            assert (of_means - whole).norm() / whole.norm() > 100 * error


def test_rows_are_shared_out_once_each():
    for whole in range(1, 40):
        for size in range(1, 12):
            parts = [range(*Processes(rank=rank, size=size).rows(whole)) for rank in range(size)]
            assert [row for part in parts for row in part] == list(range(whole))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(
        InputError,
        match="9 processes cannot share batches of 8 rows of 64 tokens: give batch_tokens=576 or",
    ):
        Processes(size=9).refuse_few_rows(8, 64)


def options_of(shared, out, **more):
    options = {"steps": 12, "device": "cpu", "valid_share": 0.1, "out": out}
    return {**SMALL, **options, **more}


def command(shared, out, *words, texts=True, **more):
    settings = options_of(shared, out, **more).items()
    options = [word for name, value in settings for word in (f"--{name.replace('_', '-')}", value)]
    return ["train", *([shared / "corpus.txt"] if texts else ()), *options, *words]


def alone(shared, out, **more):
    corpus = None if "parallel" in more else shared / "corpus.txt"
    return flat.train(corpus, **options_of(shared, out, **more))


def weights(out):
    return load_file(out / "model.safetensors")


def curve(out):
    """Losses of training and of validation, step by step."""
    records = [
        json.loads(line) for line in (out / "training" / "log.jsonl").read_text().splitlines()
    ]
    return [record.get("loss", record.get("valid_loss")) for record in records]


def same_run(one, other):
    """Whether two runs have the same losses and weights, but for rounding."""
    a, b = weights(one), weights(other)
    return curve(one) == pytest.approx(curve(other), rel=1e-4) and all(
        torch.allclose(a[k], b[k], atol=2e-4) for k in a
    )


@pytest.fixture(scope="module")
def one(shared):
    """A run in one process."""
    assert alone(shared, shared / "one").finished
    return shared / "one"


@pytest.mark.parametrize("first", [1, 2])
def test_a_checkpoint_moves_between_numbers_of_processes(shared, one, tmp_path, first):
    out = tmp_path / "model"
    words = command(shared, out)
    if first == 1:
        alone(shared, out, max_minutes=0.0)
        ended = together([words] * 2, tmp_path / "files")
    else:
        ended = together([[*words, "--max-minutes", 0]] * 2, tmp_path / "files")
        assert "paused at step 1 of 12" in " ".join(ended.printed[0].split())  # lines are folded
        assert ended.lines[-1] == AGAIN
        alone(shared, out)
    assert ended.codes == [0, 0]
    for path in (one, out):  # the paused run validated once more
        losses = [
            line
            for line in (path / "training" / "log.jsonl").read_text().splitlines()
            if '"loss"' in line
        ]
        assert [json.loads(line)["step"] for line in losses] == list(range(1, 13))
    a, b = weights(one), weights(out)
    assert all(torch.allclose(a[name], b[name], atol=2e-4) for name in a)
    assert curve(out)[-1] == pytest.approx(curve(one)[-1], rel=1e-4)


RUNS = """if True:
    from unmask.studies.training.processes import joined

    for run in range(12):
        with joined("cpu") as processes:
            print(processes.highest(10 * run + processes.rank), end=" ")
"""


def test_runs_of_one_program_follow_each_other(tmp_path):
    """The addresses of an earlier run's processes are still in the store."""
    ended = together([["-c", RUNS]] * 2, tmp_path)
    assert ended.codes == [0, 0], ended.told
    assert ended.printed == ["1 11 21 31 41 51 61 71 81 91 101 111 "] * 2


def wait_for(there, run):
    while not there() and all(process.is_alive() for process in run.processes):
        time.sleep(0.01)
    assert there()


INTERRUPTED = """if True:
    import signal, sys
    from unmask.__main__ import main
    from unmask.studies.training.trainer import Trainer

    step, sys.argv[1:] = Trainer.step, {words}

    def twice(trainer, number):
        for _ in range(2 if number == 3 else 0):
            signal.raise_signal(signal.SIGINT)
        return step(trainer, number)

    Trainer.step = twice
    main()
"""
"""`unmask` with two interrupts in its fourth step, as the terminal and torchrun send them."""


def test_an_interrupt_of_one_process_stops_all_with_a_model(shared, tmp_path):
    out = tmp_path / "model"
    words = [str(word) for word in command(shared, out, steps=ENDLESS)]
    ended = together([words, ["-c", INTERRUPTED.format(words=words)]], tmp_path / "files")
    assert ended.codes == [130, 130]
    assert "interrupted at step " in " ".join(ended.printed[0].split())
    assert not ended.printed[1]
    stopped = f"stopped; the work so far is kept in {out}: {AGAIN}"
    assert [line for line in ended.lines if "steps" not in line] == [stopped]
    assert (out / "model.safetensors").exists()


def test_a_process_whose_partner_is_killed_says_one_line(shared, tmp_path):
    out = tmp_path / "model"
    with started([command(shared, out, steps=ENDLESS)] * 2, tmp_path / "files") as run:
        wait_for((out / "training" / "log.jsonl").exists, run)
        run.processes[1].kill()
        ended = run.end()
    lost = (
        "error: process 0 lost another process of the run, which has ended: see what it printed;"
        " give the same command again"
    )
    assert ended.codes == [2, -signal.SIGKILL]
    assert not ended.told[1]
    (line,) = [line for line in ended.told[0].splitlines() if "steps of" not in line]
    assert line.startswith(lost)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_process_that_torchrun_stops_says_one_line(monkeypatch, capfd, tmp_path, rank):
    """Also if an error of a lost connection was on its way: nothing after the signal would
    print.
    """
    monkeypatch.setattr(process._State, "interrupted_at", None)
    for name, value in {"RANK": rank, "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    process.begins(tmp_path / "model")
    with pytest.raises(KeyboardInterrupt):
        process._interrupted(signal.SIGTERM, None)
    line = (
        f"process {rank} is stopped by torchrun: another process of the run has ended, or the run"
        " was stopped\n"
    )
    assert capfd.readouterr().err == line


def test_a_mistake_of_all_processes_is_one_line(shared, tmp_path):
    out = tmp_path / "model"
    ended = together([command(shared, out, batch_tokens=32)] * 2, tmp_path / "files")
    assert ended.codes == [2, 2]
    assert len(ended.lines) == 1
    assert not out.exists()
    assert ended.told[0].startswith(
        "error: 2 processes cannot share batches of 1 rows of 32 tokens: give --batch"
    )


@pytest.mark.parametrize(
    ("device", "local", "expected"),
    [
        ("cuda", 1, torch.device("cuda", 1)),
        ("auto", 0, torch.device("cuda", 0)),
        (
            "cuda",
            2,
            (
                "3 processes were started on a machine with 2 GPUs: start 2 of them, or give"
                " device=cpu"
            ),
        ),
        (
            "cuda:1",
            0,
            "device 'cuda:1' is one GPU, and there are several processes: give cuda, one",
        ),
        ("cpu", 7, torch.device("cpu")),
    ],
)
def test_each_process_has_a_gpu_of_its_own(monkeypatch, device, local, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda on: None)
    if isinstance(expected, torch.device):
        assert device_of(device, local) == expected
    else:
        with pytest.raises(InputError, match=expected):
            device_of(device, local)


def test_two_processes_of_torchrun_train_the_model_of_one(shared, one, tmp_path):
    two, other = tmp_path / "two", tmp_path / "other"
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "-m",
        "unmask",
    ]
    words = [str(word) for word in command(shared, two)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    ended = subprocess.run(
        [*launch, *words], capture_output=True, text=True, env=environment, timeout=SECONDS
    )
    assert ended.returncode == 0
    assert " ".join(ended.stdout.split()).count("finished at step 12 of 12") == 1
    assert ended.stderr.count("12 steps of 512 tokens") == 1
    assert "1 threads, 2 processes)" in (two / "README.md").read_text()
    assert len(curve(two)) == 24
    assert same_run(one, two)
    alone(shared, other, seed=4)
    assert not same_run(one, other)
