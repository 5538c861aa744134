"""Runs a command line in this process, with streams of its own; or in another one, which a
signal stops at a known moment.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from unittest.mock import patch

import unmask
from unmask.surfaces.cli import app, terminal


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    exception: BaseException | None = None

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(
    words: Sequence[str],
    input: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    catch_exceptions: bool = True,
) -> Done:
    """`unmask WORDS`; a defect of ours is raised, or (by default) returned as `exception` with
    exit code 1.

    How long work takes is not printed: what a test reads does not depend on how busy the
    machine is.
    """
    content = input.encode() if isinstance(input, str) else input or b""
    streams = {
        name: io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        for name in ("stdout", "stderr")
    }
    streams["stdin"] = io.TextIOWrapper(io.BytesIO(content), "utf-8")
    error = None
    no_lines = patch.object(terminal, "LINE_SECONDS", inf)
    with patch.multiple(sys, **streams), patch.dict(os.environ, dict(env or {})), no_lines:
        try:
            code = app.run([str(word) for word in words])
        except Exception as raised:
            if not catch_exceptions:
                raise
            code, error = 1, raised
    printed = [streams[name].buffer.getvalue().decode() for name in ("stdout", "stderr")]
    return Done(code, printed[0], printed[1], error)


def refused(words: Sequence[object], input: str | bytes | None = None) -> str:
    """The line of a command that ends with exit code 2: one on standard error, besides
    warnings, and nothing printed.
    """
    done = invoke(
        [str(word) for word in words], input, env={"COLUMNS": "80"}, catch_exceptions=False
    )
    assert done.exit_code == 2, done.output[-1000:]
    assert done.stdout == "", done.output[-1000:]
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: "), done.stderr
    assert len(lines[0]) > len("error: ") + 10, done.stderr
    return lines[0].removeprefix("error: ")


HEARD = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@contextmanager
def signals_heard() -> Iterator[None]:
    """Processes that begin here hear signals, also where the caller ignores them (nohup, a job
    in the background).
    """
    before = {number: signal.signal(number, action) for number, action in HEARD.items()}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


STOPPED = """
import fnmatch, os, signal, sys
from importlib.abc import MetaPathFinder

moment, numbers = sys.argv[1], {int(number) for number in sys.argv[2].split(",")}
replace = os.replace

def stop():
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

def replaced(source, target):
    replace(source, target)
    if fnmatch.fnmatch(str(target), moment):
        os.replace = replace
        stop()

class Imports(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            stop()

os.replace = replaced
sys.meta_path.insert(0, Imports())
sys.argv[1:] = sys.argv[3:]
from unmask.__main__ import main
main()
"""


def stopped(words: Sequence[object], moment: str, *numbers: int) -> subprocess.Popen[str]:
    """`unmask WORDS` in a process that gets the signals at a moment: a file of this name
    appears, or a module is imported.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(unmask.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    command = [
        sys.executable,
        "-c",
        STOPPED,
        moment,
        ",".join(str(int(number)) for number in numbers),
        *map(str, words),
    ]
    with signals_heard():
        return subprocess.Popen(command, text=True, env=environment, **streams)
