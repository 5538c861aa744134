"""What surrounds a command: streams that are closed, full or narrow, signals, warnings, and
errors as one line.
"""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import unmask
from support.command_runner import invoke, signals_heard, stopped
from unmask.surfaces.cli import process

SOURCE = str(Path(unmask.__file__).parents[1])
TWO = "the [MASK] sat on the [MASK] ."


def start(*args: object, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "80", **options.pop("env", {})}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-m", "unmask", *map(str, args)]
    return subprocess.Popen(command, text=True, encoding="utf-8", env=environment, **streams)


def run(*args: object, text: str | None = None, **options: object) -> tuple[int, str, str]:
    begun = start(
        *args, stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL, **options
    )
    out, err = begun.communicate(text, timeout=600)
    return begun.returncode, out or "", err or ""


def shell(line: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=600
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (
            "$PYTHON -m unmask --version >/dev/full",
            2,
            "error: reading or writing failed (No space left on device)",
        ),
        (
            "$PYTHON -m unmask --help >/dev/full",
            2,
            "error: reading or writing failed (No space left on device)",
        ),
        ("$PYTHON -m unmask --version >&-", 2, "error: standard output is closed"),
        ("$PYTHON -m unmask fill - <&-", 2, "error: standard input is closed"),
        ("$PYTHON -m unmask fill --file /", 2, "error: '/' is a folder: give a file"),
    ],
)
def test_streams_that_cannot_be_used_are_told_in_one_line(line, code, said):
    status, out, err = shell(line)
    assert (status, out) == (code, "")
    assert err.startswith(said)
    assert len(err.splitlines()) == 1


def test_without_standard_error_the_exit_code_still_tells():
    assert shell("$PYTHON -m unmask fill x --model /nowhere 2>&-") == (2, "", "")


OPENS = (
    "import os; from unmask.surfaces.cli import app; app.run = lambda words: os.open('/', 0); from"
    " unmask.__main__ import main; main()"
)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_file_gets_the_number_of_a_stream_that_was_closed(number):
    assert shell(f'$PYTHON -c "{OPENS}" {number}>&-')[0] > 2


def test_a_reader_that_leaves_is_no_error():
    code, out, err = shell("set -o pipefail; $PYTHON -m unmask --help | true")
    assert (code, out, err) == (process.NO_READER, "", "")


def test_an_ascii_terminal_and_no_columns(tiny_folder):
    code, out, err = run(
        "fill", TWO, "--model", tiny_folder, env={"PYTHONIOENCODING": "ascii", "COLUMNS": "0"}
    )
    assert code == 0
    assert err == ""
    assert out.isascii()
    assert "restarted joint of 2 blanks" in out
    assert len([line for line in out.splitlines() if "sat on the" in line]) == 11


def test_a_working_directory_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    code, out, err = shell(f"cd {tmp_path}/gone && rmdir ../gone && $PYTHON -m unmask fill '{TWO}'")
    assert (code, out, err) == (
        2,
        "",
        "error: the working directory was deleted: change to another\n",
    )


@pytest.mark.parametrize(
    "numbers", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT, signal.SIGTERM]]
)
def test_signals_end_with_130_and_no_traceback(numbers):
    with signals_heard():
        begun = start("fill", "-", stdin=subprocess.PIPE)
    wait_until_heard(begun, signal.SIGHUP)  # the last of them
    for number in numbers:
        begun.send_signal(number)
    out, err = begun.communicate()
    assert (begun.returncode, out, err) == (process.INTERRUPTED, "", "")


@pytest.mark.parametrize(
    "module", ["unmask.surfaces.cli.app", "torch", "unmask.joints.kept_fillings"]
)
def test_an_interrupt_while_things_are_loaded(module):
    begun = stopped(
        ["fill", "The [MASK] [MASK] at the casino.", "--candidates", "all"], module, signal.SIGINT
    )
    assert (*begun.communicate(), begun.returncode) == ("", "", process.INTERRUPTED)


EARLY = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Imports(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Imports())
for name in ("re", "importlib", "threading"):
    sys.modules.pop(name, None)
sys.orig_argv[1:] = ["-m", "unmask"]
import unmask.__main__
print("not stopped")
"""


@pytest.mark.parametrize(
    "module",
    [
        "re",
        "unmask.__main__",
        "unmask.surfaces.cli",
        "unmask.surfaces.cli.process",
        "threading",
        "unmask.common.errors",
    ],
)
def test_an_interrupt_before_the_command_is_loaded(module):
    """From the first line of the package on, Ctrl-C ends the command without a traceback."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", EARLY, module]
    with signals_heard():
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (process.INTERRUPTED, "", "")


def test_a_library_that_imports_this_one_keeps_its_interrupts():
    kept = (
        "import signal, unmask; assert signal.getsignal(signal.SIGINT) is"
        " signal.default_int_handler"
    )
    with signals_heard():
        subprocess.run(
            [sys.executable, "-c", kept],
            env={**os.environ, "PYTHONPATH": SOURCE},
            check=True,
            timeout=600,
        )


def test_a_signal_that_the_parent_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        begun = start("fill", "-", stdin=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until_heard(begun, signal.SIGTERM)
    begun.send_signal(signal.SIGHUP)
    _, err = begun.communicate("")
    assert begun.returncode == 2
    assert err.startswith("error: ")


def wait_until_heard(begun: subprocess.Popen[str], number: int) -> None:
    """Until the process hears this signal, which it cannot during Python's own start."""
    while True:
        status = Path(f"/proc/{begun.pid}/status").read_text()
        caught = int(
            next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16
        )
        if caught >> (number - 1) & 1:
            return
        assert begun.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(13, "Permission denied", "/root/x"),
            "'/root/x' (Permission denied): check the path, its permissions",
        ),
        (
            OSError(28, "No space left on device"),
            "reading or writing failed (No space left on device): check the path",
        ),
        (MemoryError(), "out of memory"),
        (
            RuntimeError(
                "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8"
                " bytes"
            ),
            "out of memory",
        ),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (
            OverflowError("int too large to convert to float"),
            "a number is too large (int too large",
        ),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "use UTF-8"),
        (EOFError("Ran out of input"), "a file ends too early (Ran out of input)"),
        (
            type("PanicException", (BaseException,), {})("retry limit"),
            "a library in Rust, such as the model's tokenizer, failed",
        ),
    ],
)
def test_errors_of_the_machine_are_one_line(monkeypatch, tiny_folder, error, said):
    def failing(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(unmask, "fill", SimpleNamespace(each=failing, of_text=failing))
    result = invoke(["fill", TWO, "--model", str(tiny_folder)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_warning_is_one_line_told_once(monkeypatch, tiny_folder):
    def warning(*args: object, **options: object) -> None:
        for _ in range(3):
            warnings.warn("the chain is\nreducible", UserWarning, stacklevel=1)
            warnings.warn("not for users", DeprecationWarning, stacklevel=1)
        raise unmask.InputError("enough")

    monkeypatch.setattr(unmask, "fill", SimpleNamespace(each=warning, of_text=warning))
    result = invoke(["fill", TWO, "--model", str(tiny_folder)])
    assert result.stderr == "warning: the chain is reducible\nerror: enough\n"


LOGS = """
import logging
from unmask.surfaces.cli import process
with process.one_line_warnings():
    logging.getLogger("matplotlib").warning("created a temporary cache directory")
    logging.getLogger("unmask.models").warning("ours")
    logging.getLogger("unmask.verbs.train").info("a plan")
logging.getLogger("matplotlib").warning("after")
"""


def test_what_other_libraries_log_is_not_printed():
    done = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, timeout=600)
    assert done.stderr.splitlines() == ["warning: ours", "a plan", "after"]


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_rows_are_utf_8_and_files_are_read_as_such_whatever_the_console_has(
    tiny_folder, tmp_path, encoding, format
):
    file = tmp_path / "texts.csv"
    file.write_bytes("\ufefftext;who\r\nthe cat sat .;Zo\u00eb \u4e2d \U0001f600\r\n".encode())
    environment = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    code, out, err = run(
        "score", "--file", file, "--model", tiny_folder, "--format", format, env=environment
    )
    assert code == 0
    assert err == ""
    if format == "csv":
        (row,) = csv.DictReader(io.StringIO(out))
    else:
        row = json.loads(out)
    assert (row["text"], row["who"]) == ("the cat sat .", "Zo\u00eb \u4e2d \U0001f600")


def test_a_warning_that_the_user_makes_an_error_is_one_line():
    line = process.explained(unmask.common.errors.UnmaskWarning("the model does not know 'café'"))
    assert (
        line == "the model does not know 'café': this is a warning, and python -W or PYTHONWARNINGS"
        " makes warnings errors; leave that out to go on"
    )
