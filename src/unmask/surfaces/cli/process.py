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

from unmask.common.errors import (
    InputError,
    NameWriter,
    Notice,
    UnmaskError,
    UnmaskWarning,
    in_python,
)
from unmask.runs.progress import stopping_signals

MISTAKE = 2
INTERRUPTED = 130
NO_READER = 141
"""Exit codes, see above."""

PATIENCE = 0.5
"""Seconds after an interrupt in which another one means the same."""

LONGEST_WORD = 300
BEGINNING = 200
ENDING = 60
"""Characters: a word of a line with more than the first is shown by its beginning and ending."""

AGAIN = "give the same command again to continue"
RUN_FILES = ("settings.json", "training/settings.json")
"""A folder that holds one of these is the folder of a run."""

FULL = re.compile("not enough memory|can't allocate memory|out of memory", re.IGNORECASE)
"""In the message of a plain RuntimeError of torch, where the memory of a CPU ends."""
LOST = re.compile("gloo|NCCL|connection (reset|closed|refused)", re.IGNORECASE)
"""In the message of an error of torch.distributed, where another process of the run has ended."""
OWN_CODE = "__unmask_code__"
"""Modules of the user's own code have this name, see common/methods/own_code.py."""
SHOW_CURSOR = b"\x1b[?25h"
"""The escape sequence that makes a terminal show its cursor, which a progress bar hides."""


class _State:
    """What is known of the command that runs.

    interrupted_at   when an interrupt came, by time.monotonic
    reported         whether a line has said it
    out              its --out
    code             its exit code, at the end
    """

    interrupted_at: float | None = None
    reported = False
    out: object = None
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
    """The number of this process among those that torchrun started with it; 0 without torchrun.

    local   among those on this machine
    """
    number = os.environ.get("LOCAL_RANK", "0") if local else os.environ.get("RANK", "0")
    if number.isdigit() and _is_one_of_several():
        return int(number)
    return 0


def _is_one_of_several() -> bool:
    """Whether torchrun started other processes of the run, too."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def interrupted() -> bool:
    """Whether an interrupt came, also one that some library turned into another error."""
    return _State.interrupted_at is not None


def begins(out: object = None) -> None:
    """State that a command runs, and its --out, for the line of an interrupt."""
    _State.out = out
    _State.reported = False


def report_interrupt(by_torchrun: bool = False) -> None:
    """Print, once, how to continue the command if its --out is the folder of a run; or that
    torchrun stopped this process.
    """
    if _State.reported:
        return
    out = _State.out
    if _is_run_folder(out) and rank() == 0:
        print_line(f"stopped; the work so far is kept in {out}: {AGAIN}")
    elif by_torchrun:
        print_line(
            f"process {rank()} is stopped by torchrun: another process of the run has ended, or the"
            " run was stopped"
        )
    _State.reported = True


def _is_run_folder(out: object) -> bool:
    """Whether a command's --out is a folder that holds the settings of a run."""
    if not isinstance(out, str | Path):
        return False
    folder = os.path.expanduser(out)
    return any(os.path.isfile(os.path.join(folder, file)) for file in RUN_FILES)


def leave(code: int = INTERRUPTED) -> NoReturn:
    """End the process without taking down its modules one by one, a twelfth of a short command.

    Threads and exit functions are waited for, except after an interrupt; files are written
    whole or not at all.
    """
    _State.code = code
    if interrupted():
        _show_cursor()
    else:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):
                stream.flush()
    os._exit(code)


def _show_cursor() -> None:
    """Make the terminal show its cursor, by a write that needs no Python stream: sys.stderr may
    be in the middle of another one.
    """
    # A console of Windows may print the sequence, and shows its cursor by itself.
    if os.isatty(2) and os.name != "nt":
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Python calls this at a signal: the first one raises KeyboardInterrupt, a later one ends the
    process.
    """
    now = time.monotonic()
    if _State.code is not None:  # the command has ended, and Python is on its way out
        os._exit(_State.code)
    if _State.interrupted_at is None:
        _State.interrupted_at = now
        if number == signal.SIGTERM and _is_one_of_several():
            # At once: an error of the process that torchrun lost may be on its way.
            report_interrupt(by_torchrun=True)
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
    except (BrokenPipeError, SystemExit):
        # rich leaves by SystemExit where it meets a broken pipe itself.
        abandon_output()
        return NO_READER
    except BaseException as error:  # a panic in Rust is not an Exception
        # A library may have turned the interrupt into another error.
        if isinstance(error, KeyboardInterrupt) or interrupted():
            report_interrupt()
            return INTERRUPTED
        line = line_of(error)
        if line is None:
            raise
        if isinstance(error, OSError):
            abandon_output()
        # All processes that torchrun started here make the same mistake: the first prints it.
        if rank(local=True) == 0 or not isinstance(error, UnmaskError):
            print_line(f"error: {one_line(line)}")
        return MISTAKE
    return code if isinstance(code, int) else 0


def prepare() -> None:
    """Ensures usable standard streams; a character that the terminal lacks shows as its number."""
    try:
        os.getcwd()
    except FileNotFoundError:
        # Relative paths lead nowhere then, and torch's libraries are not found.
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
def one_line_warnings(write: NameWriter = in_python) -> Iterator[None]:
    """Warnings to the user as one line each on standard error, once; those to developers, and
    logs of others, are not shown.

    The logs of `unmask` itself are printed as they are, for example the settings that a
    training run chose.

    write   how the names of arguments are written
    """
    import logging

    printed: set[str] = set()

    def warn(message: str) -> None:
        line = one_line(message)
        if line not in printed and rank() == 0:
            printed.add(line)
            print_line(f"warning: {line}")

    def show(message: object, *rest: object, **named: object) -> None:
        """Called by Python for each warning."""
        if isinstance(message, UnmaskWarning):
            warn(message.written(write))
        else:
            warn(str(message))

    def emit(record: logging.LogRecord) -> None:
        """Called by Python for each line of a log."""
        if not record.name.startswith("unmask"):
            return
        if isinstance(record.msg, Notice):
            message = record.msg.written(write)
        else:
            message = record.getMessage()
        if record.levelno >= logging.WARNING:
            warn(message)
        else:
            print_line(message)

    log = logging.getLogger()
    lines = logging.Handler()  # without a handler, Python would print what others log
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
    characters = []
    for character in text:
        if character.isprintable() or character.isspace():
            characters.append(character)
        else:
            characters.append(repr(character)[1:-1])
    words = []
    for word in "".join(characters).split():
        if len(word) > LONGEST_WORD:
            words.append(f"{word[:BEGINNING]}...{word[-ENDING:]}")
        else:
            words.append(word)
    return " ".join(words)


def explained(error: BaseException, write: NameWriter = in_python) -> str | None:
    """The line for an error that the user can correct; None for a defect of ours, whose
    traceback is needed.

    write   how the names of arguments are written
    """
    if isinstance(error, UnmaskError):
        return error.written(write)
    if isinstance(error, UnmaskWarning):
        return (
            f"{error.written(write)}: this is a warning, and python -W or PYTHONWARNINGS makes"
            " warnings errors; leave that out to go on"
        )
    first = _first_line(error)
    if isinstance(error, OSError):
        return _line_of_system(error, first)
    out_of_memory = f"out of memory ({first}): ask for less at once, or use a smaller model"
    if isinstance(error, RuntimeError):
        if LOST.search(str(error)) and _is_one_of_several():
            return (
                f"process {rank()} lost another process of the run, which has ended: see what it"
                f" printed; {AGAIN}"
            )
        if FULL.search(str(error)):
            return out_of_memory
    if type(error).__name__ == "PanicException":  # of pyo3, which exports no class of it
        return (
            f"a library in Rust, such as the model's tokenizer, failed ({first}): give other texts,"
            " or another model"
        )
    lines: dict[type[BaseException], str] = {
        RecursionError: "the input is nested too deeply to be read: flatten it",
        MemoryError: out_of_memory,
        OverflowError: f"a number is too large ({first}): give a smaller one",
        UnicodeError: f"text that cannot be read or written in its encoding ({first}): use UTF-8",
        EOFError: f"a file ends too early ({first}): it is damaged, make or copy it again",
    }
    for kind, line in lines.items():
        if isinstance(error, kind):
            return line
    return _line_of_own_code(error, first)


def _line_of_own_code(error: BaseException, first: str) -> str | None:
    """The line for an error in the user's own code: its file, and the innermost of its lines that
    ran; None if none did.
    """
    place = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_globals.get(OWN_CODE)
        if code is not None:
            place = f"{code.path.name} line {step.tb_lineno}"
        step = step.tb_next
    if place is None:
        return None
    return f"{place}: {type(error).__name__}: {first}: mend the file"


def _first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 160 characters; its class if it has none."""
    lines = str(error).strip().splitlines()
    if lines:
        return lines[0][:160]
    return type(error).__name__


def _line_of_system(error: OSError, first: str) -> str:
    """The line for an error of the system: the file that it names, and the reason."""
    what = "reading or writing failed"
    if isinstance(error.filename, str | bytes):
        what = repr(os.fsdecode(error.filename))
    return (
        f"{what} ({error.strerror or first}): check the path, its permissions and the space on"
        " its disk"
    )
