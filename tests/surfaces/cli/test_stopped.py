"""A real process, stopped by a real signal while it works: exit code, no traceback, and a run
that goes on to the same end.
"""

from __future__ import annotations

import random
import shlex
import signal

import pandas
import pytest
import torch

from support.command_runner import invoke, stopped
from unmask.surfaces.cli.process import AGAIN, INTERRUPTED

WORDS = "the a cat dog sat ran on under mat tree".split()
COMMANDS = {
    "train": (
        "train {texts} --out {out} --layers 1 --width 16 --heads 2 --vocab 64 --max-length 16 "
        "--batch-tokens 64 --steps 120 --device cpu"
    ),
    "sample": "sample --chains 4 --sweeps 20 --length 6 --out {out} --model {model} --device cpu",
    "evaluate": (
        "evaluate {texts} --pairs 40 --constructions product,mrf --out {out} --model {model}"
        " --device cpu"
    ),
    "score": (
        "score --file {texts} --score pll,left_to_right --out {out} --model {model} --device cpu"
    ),
}
BEGUN = {
    "train": "training/checkpoint.pt",
    "sample": "checkpoints/*.npz",
    "evaluate": "parts/part-*.parquet",
    "score": "parts/part-*.parquet",
}
"""What is there when the work has begun."""
RESULTS = {
    "train": "model.safetensors",
    "sample": "samples.parquet",
    "evaluate": "results.parquet",
    "score": "scores.jsonl",
}
STOPS = {
    "train": [signal.SIGTERM],
    "sample": [signal.SIGKILL],
    "evaluate": [signal.SIGINT, signal.SIGTERM],
    "score": [signal.SIGHUP],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_folder):
    """Where the texts are, and the model."""
    folder = tmp_path_factory.mktemp("stopped")
    draw = random.Random(0)
    (folder / "texts.txt").write_text(
        "".join(" ".join(draw.choices(WORDS, k=8)) + " .\n" for _ in range(600))
    )
    return {
        "folder": folder,
        "texts": folder / "texts.txt",
        "model": tiny_folder,
        "cache": folder / "cache",
    }


def words(place, command, out):
    return [word.format(**place, out=out) for word in shlex.split(COMMANDS[command])]


@pytest.fixture(scope="module")
def ended(place):
    """Every command as a process, side by side; each is stopped as soon as it has something to
    lose. Exit code and stderr.
    """
    running = {
        command: stopped(
            words(place, command, place["folder"] / command), f"*/{BEGUN[command]}", *STOPS[command]
        )
        for command in COMMANDS
    }
    errors = {command: process.communicate()[1] for command, process in running.items()}
    return {command: (process.returncode, errors[command]) for command, process in running.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stopped_run_says_so_and_goes_on_to_the_same_result(place, ended, tmp_path, command):
    code, err = ended[command]
    out = place["folder"] / command
    assert code == (-signal.SIGKILL if signal.SIGKILL in STOPS[command] else INTERRUPTED), err
    line = f"stopped; the work so far is kept in {out}: {AGAIN}\n"
    assert err.count("stopped;") == (0 if code < 0 else 1)
    assert code < 0 or err.endswith(line)
    assert "Traceback" not in err
    assert command == "train" or not (out / RESULTS[command]).exists()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for command_line in (words(place, command, out), words(place, command, tmp_path / "new")):
            done = invoke(command_line)
            assert done.exit_code == 0, done.output
    finally:
        torch.set_num_threads(threads)
    assert content(out / RESULTS[command]) == content(tmp_path / "new" / RESULTS[command])


def content(file):
    if file.suffix != ".parquet":
        return file.read_bytes()
    frame = pandas.read_parquet(file)
    return frame.drop(columns=[column for column in frame if column == "seconds"]).to_csv()


def test_a_signal_while_things_are_loaded_leaves_nothing(place, tmp_path):
    process = stopped(words(place, "train", tmp_path / "out"), "torch", signal.SIGTERM)
    assert (*process.communicate(), process.returncode) == ("", "", INTERRUPTED)
    assert not (tmp_path / "out").exists()
