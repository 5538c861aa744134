"""The process around a command: its streams, its signals, its warnings, and how it ends.

Exit codes: 0, 1 if some of the work failed, 2 for errors that the user can correct, 130 for an
interrupt (Ctrl-C, SIGTERM or SIGHUP), 141 if the reader of standard output has left. Nothing
here loads more than Python's own modules, so that signals are heard before anything large is
imported.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from unmask.common.errors import InputError, UnmaskError, UnmaskWarning
from unmask.runs.progress import stopping_signals

MISTAKE, INTERRUPTED, NO_READER = 2, 130, 141
PATIENCE, LONGEST_WORD = 0.5, 300
"""Seconds after an interrupt in which another one means the same; characters of a word that a
line shows whole.
"""
AGAIN, RESUME = (
    "give the same command again to continue",
    "add --resume to the same command to continue",
)
RUN_FILES = ("settings.json", "training/settings.json")
FULL = re.compile("not enough memory|can't allocate memory|out of memory", re.IGNORECASE)
"""In the message of a plain RuntimeError of torch, where the memory of a CPU ends."""
LOST = re.compile("gloo|NCCL|connection (reset|closed|refused)", re.IGNORECASE)
"""In the message of an error of torch.distributed, where another process of the run has ended."""


class _State:
    """When an interrupt came and whether a line has said it; the command that runs, with its
    --out; its exit code at the end.
    """

    interrupted_at: float | None = None
    reported = False
    command: tuple[str, object] = ("", None)
    code: int | None = None


def open_streams() -> None:
    """Open closed standard streams on the null device: else the next file has the number, and
    gets what a library prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number


def listen() -> None:
    """Make the signals that stop work raise KeyboardInterrupt; one that comes again later ends
    the process at once.

    A signal that the parent process ignores (nohup, a job in the background) stays ignored.
    """
    for number in stopping_signals():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)


def rank(local: bool = False) -> int:
    """The number of this process among those that torchrun started with it, in all or on this
    machine; 0 without torchrun.
    """
    number = os.environ.get("LOCAL_RANK" if local else "RANK", "0")
    return int(number) if number.isdigit() and os.environ.get("WORLD_SIZE", "1") != "1" else 0


def interrupted() -> bool:
    """Whether an interrupt came, also one that some library turned into another error."""
    return _State.interrupted_at is not None


def begins(verb: str, out: object = None) -> None:
    """State the command that runs and its --out, for the line of an interrupt."""
    _State.command, _State.reported = (verb, out), False


def report_interrupt(by_torchrun: bool = False) -> None:
    """Print, once, how to continue the command if its --out is the folder of a run; or that
    torchrun stopped this process.
    """
    verb, out = _State.command
    if _State.reported:
        return
    folder = os.path.expanduser(out) if isinstance(out, str | Path) else None
    is_run = folder is not None and any(
        os.path.isfile(os.path.join(folder, file)) for file in RUN_FILES
    )
    if is_run and rank() == 0:
        print_line(
            f"stopped; the work so far is kept in {out}: {RESUME if verb == 'train' else AGAIN}"
        )
    elif by_torchrun:
        print_line(
            f"process {rank()} is stopped by torchrun: another process of the run has ended, or the"
            " run was stopped"
        )
    _State.reported = True


def leave(code: int = INTERRUPTED) -> NoReturn:
    """End the process without taking down its modules one by one, a twelfth of a short command.

    Threads and exit functions are waited for, except after an interrupt; files are written
    whole or not at all.
    """
    _State.code = code
    if not interrupted():
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):
                stream.flush()
    elif (
        os.isatty(2) and os.name != "nt"
    ):  # a console of Windows may print the sequence, and shows its cursor by itself
        with suppress(OSError):
            os.write(
                2, b"\x1b[?25h"
            )  # shows the cursor; sys.stderr may be in the middle of another write
    os._exit(code)


def _interrupted(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if _State.code is not None:  # the command has ended, and Python is on its way out
        os._exit(_State.code)
    if _State.interrupted_at is None:
        _State.interrupted_at = now
        if number == signal.SIGTERM and os.environ.get("WORLD_SIZE", "1") != "1":
            report_interrupt(
                by_torchrun=True
            )  # at once: an error of the process that torchrun lost may be on its way
        raise KeyboardInterrupt
    if now - _State.interrupted_at > PATIENCE:
        leave()


def guarded(work: Callable[[], Any], line_of: Callable[[BaseException], str | None]) -> int:
    """Do the work and return its exit code; an error for which `line_of` has a line is printed
    as that line.
    """
    try:
        prepare()
        code = work()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (
        BrokenPipeError,
        SystemExit,
    ):  # rich leaves by SystemExit where it meets a broken pipe itself
        abandon_output()
        return NO_READER
    except BaseException as error:  # a panic in Rust is not an Exception
        if (
            isinstance(error, KeyboardInterrupt) or interrupted()
        ):  # which a library turned into another error
            report_interrupt()
            return INTERRUPTED
        if (line := line_of(error)) is None:
            raise
        if isinstance(error, OSError):
            abandon_output()
        # of the processes that torchrun started here, which all have the same mistake, the
        # first prints it
        if rank(local=True) == 0 or not isinstance(error, UnmaskError):
            print_line(f"error: {one_line(line)}")
        return MISTAKE


def prepare() -> None:
    """Ensures usable standard streams; a character that the terminal lacks shows as its number."""
    try:
        os.getcwd()
    except (
        FileNotFoundError
    ):  # relative paths lead nowhere then, and torch's libraries are not found
        raise InputError("the working directory was deleted: change to another") from None
    if sys.stdout is None:
        raise InputError(
            "standard output is closed, and results are printed there: send it to a file or to"
            f" {os.devnull}"
        )
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def abandon_output() -> None:
    """Drops what is still to be written when Python closes standard output: nobody can read it."""
    with suppress(AttributeError, ValueError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings to the user as one line each on standard error, once; those to developers, and
    logs of others, are not shown.

    The logs of `unmask` itself are printed as they are, for example the settings that a
    training run chose.
    """
    import logging

    printed: set[str] = set()

    def show(message: object, *rest: object, **named: object) -> None:
        line = one_line(str(message))
        if line not in printed and rank() == 0:
            printed.add(line)
            print_line(f"warning: {line}")

    def emit(record: logging.LogRecord) -> None:
        if record.name.startswith("unmask"):
            (show if record.levelno >= logging.WARNING else print_line)(record.getMessage())

    log, lines = (
        logging.getLogger(),
        logging.Handler(),
    )  # without a handler, Python would print what others log
    lines.emit = emit  # type: ignore[method-assign]
    logging.getLogger("unmask").setLevel(logging.INFO)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        log.addHandler(lines)
        try:
            yield
        finally:
            log.removeHandler(lines)


def print_line(line: str) -> None:
    """Prints a line on standard error, if it is open; after an error nothing is said of an
    interrupt.
    """
    _State.reported = _State.reported or line.startswith("error: ")
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def one_line(text: str) -> str:
    """The text in one line: what cannot be printed as its escape, of what is longer than any
    path or word its two ends.
    """
    words = "".join(c if c.isprintable() or c.isspace() else repr(c)[1:-1] for c in text).split()
    return " ".join(
        word if len(word) <= LONGEST_WORD else f"{word[:200]}...{word[-60:]}" for word in words
    )


def explained(error: BaseException) -> str | None:
    """The line for an error that the user can correct; None for a defect of ours, whose
    traceback is needed.
    """
    if isinstance(error, UnmaskError):
        return str(error)
    if isinstance(error, UnmaskWarning):
        return (
            f"{error}: this is a warning, and python -W or PYTHONWARNINGS makes warnings errors;"
            " leave that out to go on"
        )
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)[:160]
    if isinstance(error, OSError):
        what = (
            repr(os.fsdecode(error.filename))
            if isinstance(error.filename, str | bytes)
            else "reading or writing failed"
        )
        return (
            f"{what} ({error.strerror or first}): check the path, its permissions and the space on"
            " its disk"
        )
    lines = {
        RecursionError: "the input is nested too deeply to be read: flatten it",
        MemoryError: f"out of memory ({first}): ask for less at once, or use a smaller model",
        OverflowError: f"a number is too large ({first}): give a smaller one",
        UnicodeError: f"text that cannot be read or written in its encoding ({first}): use UTF-8",
        EOFError: f"a file ends too early ({first}): it is damaged, make or copy it again",
    }
    if (
        isinstance(error, RuntimeError)
        and LOST.search(str(error))
        and os.environ.get("WORLD_SIZE", "1") != "1"
    ):
        return (
            f"process {rank()} lost another process of the run, which has ended: see what it"
            f" printed; {RESUME}"
        )
    if type(error).__name__ == "PanicException":
        return (
            f"a library in Rust, such as the model's tokenizer, failed ({first}): give other texts,"
            " or another model"
        )
    if isinstance(error, RuntimeError) and FULL.search(str(error)):
        return lines[MemoryError]
    return next((line for kind, line in lines.items() if isinstance(error, kind)), None)
