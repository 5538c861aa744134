"""The process around a command: its streams, its signals, its warnings, and how it ends.

Exit codes: 0, 1 if some of the work failed, 2 for errors that the user can correct, 130 for an interrupt (Ctrl-C, SIGTERM or
SIGHUP), 141 if the reader of standard output has left. Nothing here loads more than Python's own modules, so that signals
are heard before anything large is imported.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from unmask.errors import InputError, ModelError, UnmaskError

MISTAKE, INTERRUPTED, NO_READER = 2, 130, 141
PATIENCE = 0.5
"""Seconds after an interrupt in which another one means the same: a closing terminal sends several."""
LONGEST_WORD = 300
"""Characters of a word, or a path, that a line on standard error shows whole."""
AGAIN, RESUME = "give the same command again to continue", "add --resume to the same command to continue"
SHOW_CURSOR = "\x1b[?25h"
ADVICE = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EDQUOT: "free some space, or write elsewhere",
    errno.EACCES: "change its permissions, or name another",
    errno.EPERM: "change its permissions, or name another",
    errno.EROFS: "name a place that can be written",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a parent of it is a file, choose another path",
    errno.ENOENT: "check the path",
    errno.EEXIST: "name another path",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.ELOOP: "its links go in a circle, choose another path",
    errno.EMFILE: "allow more open files",
}


class _Exit:
    """The exit code of the command, once it is over."""

    code: int | None = None


class _Interrupt:
    """When an interrupt was heard, which command runs, with the folder of its run if it has one, and whether a line said it."""

    heard: float | None = None
    command: tuple[str, object] = ("", None)
    reported = False


def listen() -> None:
    """Make SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt; one that comes again later ends the process at once.

    So does one that comes while a module is imported, where libraries may catch any exception.
    A signal that the parent process ignores (nohup, a job in the background) stays ignored.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)
    sys.unraisablehook = _unraisable


def rank(local: bool = False) -> int:
    """The number of this process among those that torchrun started with it, in all or on this machine; 0 without torchrun."""
    number = os.environ.get("LOCAL_RANK" if local else "RANK", "0")
    return int(number) if number.isdigit() and os.environ.get("WORLD_SIZE", "1") != "1" else 0


def is_reported_elsewhere(error: BaseException) -> bool:
    """Whether the first process that torchrun started here prints the same line: all have the same mistake of the user."""
    return isinstance(error, InputError | ModelError) and rank(local=True) > 0


def interrupted() -> bool:
    """Whether an interrupt was heard, also one that some library turned into another error."""
    return _Interrupt.heard is not None


@contextmanager
def reported(verb: str, out: object = None) -> Iterator[None]:
    """Reports an interrupt of the command `verb`: one line says how to continue, if `out` is the folder of its run."""
    _Interrupt.command, _Interrupt.reported = (verb, out), False
    try:
        yield
    except BaseException as error:
        if interrupted() or isinstance(error, KeyboardInterrupt):
            _report_interrupt()
        raise
    finally:
        _Interrupt.command = ("", None)


def _report_interrupt(by_torchrun: bool = False) -> None:
    from unmask.runs.outputs import run_in

    verb, out = _Interrupt.command
    if _Interrupt.reported:
        return
    if isinstance(out, str | Path) and run_in(Path(out).expanduser()) == verb and rank() == 0:
        print_line(f"stopped; the work so far is kept in {out}: {RESUME if verb == 'train' else AGAIN}")
    elif by_torchrun:
        print_line(f"process {rank()} is stopped by torchrun: another process of the run has ended, or the run was stopped")
    _Interrupt.reported = True


def leave_now(code: int = INTERRUPTED) -> None:
    """End the process without waiting for anything; files are written whole or not at all, so none is damaged."""
    with suppress(Exception):
        if sys.__stderr__ is not None and sys.__stderr__.isatty():
            sys.__stderr__.write(SHOW_CURSOR)
            sys.__stderr__.flush()
    os._exit(code)


def ends_with(code: int) -> None:
    """State the exit code: nothing is left to do but what libraries do at exit."""
    _Exit.code = code


def end() -> None:
    """Runs at exit. All other functions for this moment run first; then the process ends without taking down what was loaded.

    Python has waited for its threads before. Without an exit code, after a defect of ours, it takes its usual way.
    """
    gc.freeze()
    if _Exit.code is None:
        return
    atexit.unregister(end)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()
    os._exit(_Exit.code)


def _interrupted(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if _Interrupt.heard is None:
        _Interrupt.heard = now
        if number == signal.SIGTERM and os.environ.get("WORLD_SIZE", "1") != "1":
            _report_interrupt(
                by_torchrun=True
            )  # at once: torchrun has lost another process, and an error of it may be on its way
        if _importing(frame):
            _report_interrupt()
            leave_now()
        raise KeyboardInterrupt
    if now - _Interrupt.heard > PATIENCE:
        leave_now()


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported there."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unraisable(found: Any) -> None:
    """An interrupt where Python cannot raise it, as in a destructor, still ends the process."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        leave_now()
    sys.__unraisablehook__(found)


def prepare() -> None:
    """Ensures usable standard streams; a character that the terminal lacks shows as its number."""
    try:
        os.getcwd()
    except FileNotFoundError:  # relative paths lead nowhere then, and torch's libraries are not found
        raise InputError("the working directory was deleted: change to another") from None
    open_ones = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    for stream in open_ones:
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # a file opened later must not take the place of a standard stream
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        raise InputError("standard output is closed, and results are printed there: send it to a file or to /dev/null")


def flush_output() -> None:
    """Writes everything that was printed, or raises."""
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon_output() -> None:
    """Drops what is still to be written when Python closes standard output: nobody can read it."""
    with suppress(AttributeError, ValueError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings to the user as one line each on standard error, once; those to developers, and logs of others, are not shown."""
    import logging

    shown: set[str] = set()

    def show(text: str) -> None:
        line = one_line(text)
        if line not in shown and rank() == 0:
            shown.add(line)
            print_line(f"warning: {line}")

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.getMessage())

    def show_warning(message: Warning | str, category: type[Warning], *rest: object, **named: object) -> None:
        show(str(message))

    log, lines = logging.getLogger("unmask"), Lines(logging.WARNING)
    others, nowhere = logging.getLogger(), logging.NullHandler()  # without a handler, Python would print what they log
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show_warning  # type: ignore[assignment]
        log.addHandler(lines)
        others.addHandler(nowhere)
        propagate, log.propagate = log.propagate, False
        try:
            yield
        finally:
            log.propagate = propagate
            log.removeHandler(lines)
            others.removeHandler(nowhere)


def print_line(line: str) -> None:
    """Prints a line on standard error, if it is open; after an error nothing is said of an interrupt."""
    _Interrupt.reported = _Interrupt.reported or line.startswith("error: ")
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def one_line(text: str) -> str:
    """The text in one line: what cannot be printed as its escape, of what is longer than any path or word its two ends."""
    words = "".join(c if c.isprintable() or c.isspace() else repr(c)[1:-1] for c in text).split()
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:200]}...{word[-60:]}" for word in words)


def explained(error: BaseException) -> str | None:
    """The line for an error that the user can correct; None for a defect of ours, whose traceback is needed."""
    if isinstance(error, UnmaskError):
        return str(error)
    if isinstance(error, OSError):
        what = repr(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "reading or writing failed"
        advice = ADVICE.get(error.errno or 0, "check it and try again")
        return f"{what} ({error.strerror or _first_line(error)}): {advice}"
    if isinstance(error, MemoryError) or _allocation_failed(error):
        return f"out of memory ({_first_line(error)}): ask for less at once (candidates, chains, sites), or a smaller model"
    if isinstance(error, RecursionError):
        return "something given is nested too deeply to be read: flatten it"
    if isinstance(error, OverflowError):
        return f"a number is too large ({_first_line(error)}): give a smaller one"
    if isinstance(error, UnicodeError):
        return f"text that cannot be read or written in its encoding ({_first_line(error)}): use UTF-8"
    if isinstance(error, EOFError):
        return f"a file ends too early ({_first_line(error)}): it is damaged, make or copy it again"
    return None


def _allocation_failed(error: BaseException) -> bool:
    """Whether torch ran out of the CPU's memory, for which it raises a plain RuntimeError."""
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        sign in said for sign in ("not enough memory", "can't allocate memory", "out of memory")
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
