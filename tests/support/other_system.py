"""Runs commands as on Windows, as far as that can be had here: what POSIX alone has is gone,
text files and the console differ.

    python tests/support/other_system.py '[["fill", "The [MASK] sat."], ["score", "a text"]]'

prints what the commands print, and after each a line `exit code N`. Nothing of this file is
part of the package.
"""

import builtins
import io
import json
import os
import shutil
import signal
import stat
import sys
from importlib import import_module

SIGNALS = (
    "SIGHUP",
    "SIGKILL",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGCHLD",
    "SIGPIPE",
    "SIGQUIT",
    "alarm",
    "setitimer",
    "sigwait",
)
SIGNALS += ("pthread_kill", "pthread_sigmask", "siginterrupt")
CALLS = (
    "fork",
    "forkpty",
    "register_at_fork",
    "sysconf",
    "sysconf_names",
    "O_DIRECTORY",
    "getuid",
    "geteuid",
    "getgid",
)
CALLS += (
    "getegid",
    "killpg",
    "setsid",
    "getpgid",
    "mkfifo",
    "statvfs",
    "sync",
    "fchmod",
    "getloadavg",
    "sched_getaffinity",
)
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")
LIBRARIES = (
    "filelock",
    "matplotlib.figure",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "rich.console",
    "scipy.stats",
    "torch",
)
LIBRARIES += ("cyclopts", "pydantic")
"""Loaded first: the builds that are installed here are of this system, and ask `sys.platform`
what they may use.
"""
ENCODING = "cp1252"


class Missing:
    """Finds no module of POSIX."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_posix():
    """Take away what Windows lacks, and open files as it does."""
    for name in LIBRARIES:
        import_module(name)
    for name in SIGNALS:
        if hasattr(signal, name):
            delattr(signal, name)
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    open_file, open_number = io.open, os.open

    def as_windows_opens(
        file,
        mode="r",
        buffering=-1,
        encoding=None,
        errors=None,
        newline=None,
        closefd=True,
        opener=None,
    ):
        refuse_folders(file)
        if "b" not in mode:
            encoding = ENCODING if encoding in (None, "locale") else encoding
            newline = "\r\n" if newline is None and mode != "r" else newline
        return open_file(file, mode, buffering, encoding, errors, newline, closefd, opener)

    def refuse_folders(path):
        if (
            isinstance(path, str | os.PathLike)
            and os.path.exists(path)
            and stat.S_ISDIR(os.stat(path).st_mode)
        ):
            raise PermissionError(13, "Permission denied", str(path))

    def no_folders(path, *flags, **options):
        refuse_folders(path)
        return open_number(path, *flags, **options)

    io.open = builtins.open = as_windows_opens
    os.open = no_folders
    shutil._use_fd_functions = False  # else a folder is deleted by opening it
    for name in ("stdin", "stdout", "stderr"):
        getattr(sys, name).reconfigure(encoding=ENCODING, newline="\r\n")


def main():
    """Run the commands, the last of them to the end of the process."""
    *before, last = json.loads(sys.argv[1])
    without_posix()
    from unmask import __main__
    from unmask.surfaces.cli.app import run

    for words in before:
        print("exit code", run(words), flush=True)
    sys.argv[1:] = last
    __main__.main()


if __name__ == "__main__":
    main()
