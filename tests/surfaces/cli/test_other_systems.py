"""Whole commands on a system that lacks what POSIX alone has: signals, locks, forks, folders as
files, UTF-8 by default.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask
from unmask.runs.progress import stopping_signals

OTHER_SYSTEM = Path(__file__).parents[2] / "support" / "other_system.py"
TWO = "the [MASK] sat on the [MASK] ."


@pytest.fixture
def run(tmp_path):
    """run(command, ...): what the commands print there, and the exit code of the last; they run
    in a folder of their own.
    """

    def run(*commands: list[object]) -> tuple[int, str, str]:
        words = json.dumps([[str(word) for word in command] for command in commands])
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(unmask.__file__).parents[1]),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "80",
        }
        command = [sys.executable, str(OTHER_SYSTEM), words]
        done = subprocess.run(
            command, capture_output=True, env=environment, cwd=tmp_path, timeout=600
        )
        return done.returncode, done.stdout.decode("cp1252"), done.stderr.decode("cp1252")

    return run


CONTROL = """
import os, pathlib, signal
from support import other_system
other_system.without_posix()
assert not hasattr(signal, "SIGHUP") and not hasattr(os, "fork") and not hasattr(os, "sysconf")
pathlib.Path("x").write_text("\u201c\\n")
assert pathlib.Path("x").read_bytes() == b"\\x93\\r\\n"
for use in (lambda: __import__("fcntl"), lambda: os.open(".", 0)):
    try:
        use()
    except (ModuleNotFoundError, PermissionError) as error:
        print(error)
"""


def test_the_program_takes_away_what_it_says(tmp_path):
    """A control: what a command may not use is not there, and files open as they do on Windows."""
    environment = {**os.environ, "PYTHONPATH": str(OTHER_SYSTEM.parents[1])}
    command = [sys.executable, "-c", CONTROL]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600
    )
    assert done.stdout.split("\n") == [
        "No module named 'fcntl'",
        "[Errno 13] Permission denied: '.'",
        "",
    ], done.stderr


def test_texts_and_tables(run, tmp_path, tiny_folder):
    (tmp_path / "texts.txt").write_bytes(f"{TWO}\r\na [MASK] “ran” .\r\n".encode())
    files = ["--file", "texts.txt", "--model", tiny_folder]
    code, out, err = run(
        ["compare", TWO, "--model", tiny_folder, "--figure", "f.png"], ["fill", *files]
    )
    assert code == 0
    assert "exit code 0" in out
    assert "\\u" not in out
    assert err == "warning: the model does not know '“', '”' and reads [UNK] instead\r\n"
    assert set(out) - set(map(chr, range(128))) == {"“", "”"}
    assert "-----" in out
    assert "|" not in out
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_in_place_of_a_file_is_called_one(run, tmp_path, tiny_folder):
    """Windows has no error of its own for it: permission is denied."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "tables.csv").mkdir()
    model = ["--model", tiny_folder]
    score = ["score", "--file", "texts", *model]
    code, _, err = run(
        score, ["score", "--file", "tables.csv", *model], ["evaluate", "texts", *model]
    )
    assert code == 2
    messages = [
        f"error: '{name}' is a folder: give a file" for name in ("texts", "tables.csv", "texts")
    ]
    assert err.splitlines() == messages


def test_run_folders_begin_and_continue(run, tmp_path, tiny_folder):
    (tmp_path / "texts.txt").write_bytes("the cat sat .\r\na dog “ran” .\r\n".encode())
    score = ["score", "--file", "texts.txt", "--model", tiny_folder, "--out", "scores"]
    sample = ["sample", TWO, "--model", tiny_folder, "--out", "samples", "--sweeps"]
    code, out, err = run(
        score,
        score,
        [*score, "--dtype", "float64"],
        [*sample, 2],
        [*sample, 4],
        ["diagnose", "samples"],
    )
    codes = [line for line in out.splitlines() if line.startswith("exit code")]
    assert code == 0, err
    assert codes == [f"exit code {n}" for n in (0, 0, 2, 0, 0)], err
    assert "error: 'scores' holds a run with " in err
    rows = [
        json.loads(line)
        for line in (tmp_path / "scores" / "scores.jsonl").read_bytes().split(b"\n")
        if line
    ]
    assert [row["text"] for row in rows] == ["the cat sat .", "a dog “ran” ."]
    assert_no_carriage_return(tmp_path / "scores", tmp_path / "samples")


def test_training_and_the_help_of_the_page(run, tmp_path):
    lines = [f"the baker {n} met “a friend” at the mill .\r\n" for n in range(60)]
    (tmp_path / "corpus.txt").write_bytes("".join(lines).encode())
    small = [
        "--layers",
        1,
        "--width",
        16,
        "--heads",
        1,
        "--vocab",
        120,
        "--steps",
        4,
        "--valid-share",
        0.2,
    ]
    train = ["train", "corpus.txt", "--out", "model", *small]
    code, out, err = run([*train, "--max-minutes", 1e-9], train, ["serve", "--help"])
    assert code == 0, err
    assert out.count("exit code 0") == 2, err
    assert "unmask serve" in out, err
    assert json.loads((tmp_path / "model" / "training" / "finished.json").read_bytes())["step"] == 4
    assert_no_carriage_return(tmp_path / "model")


def assert_no_carriage_return(*folders: Path) -> None:
    """What a run writes has the same bytes on every system."""
    texts = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".json", ".jsonl", ".md")
    ]
    assert texts
    assert not [path for path in texts if b"\r" in path.read_bytes()]


def test_only_signals_that_exist_are_heard(monkeypatch):
    import signal

    assert [number.name for number in stopping_signals()] == ["SIGINT", "SIGTERM", "SIGHUP"]
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    assert stopping_signals() == [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
