"""Processor time of short commands with the bundled model, beside `python -c "import torch"` in
one run.

    python bench/first_second.py [--times 5]

User and system time of a child process, the least of `--times` runs; the commands take turns,
so that other work on the machine falls on all. A ratio of 1 is as long as importing torch, and
leaving, takes by itself. `--candidates` shows what the passes over candidates cost: 64, 128,
256 and 512 (the default) for each of two blanks. The last column is when the first character is
on standard error, if that is a terminal; the least wall-clock time of the runs.
"""

from __future__ import annotations

import argparse
import os
import pty
import resource
import subprocess
import sys
import time

TWO = "The [MASK] [MASK] at the casino."
ONE = "The dog sat down."
COMMANDS = {
    "import torch": ["-c", "import torch"],
    "unmask --help": ["-m", "unmask", "--help"],
    "unmask score": ["-m", "unmask", "score", ONE],
    **{
        f"unmask fill --candidates {n}": ["-m", "unmask", "fill", TWO, "--candidates", str(n)]
        for n in (64, 128, 256)
    },
    "unmask fill": ["-m", "unmask", "fill", TWO],
    "unmask compare": ["-m", "unmask", "compare", TWO],
}


def run(args: list[str]) -> tuple[float, float | None]:
    """Processor seconds of a command, and seconds until its standard error, a terminal, shows
    something.
    """
    ours, theirs = pty.openpty()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    child = subprocess.Popen([sys.executable, *args], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown: float | None = None
    try:
        while os.read(ours, 1024):
            shown = shown or time.perf_counter() - begun
    except OSError:  # the child has closed its side
        pass
    os.close(ours)
    if child.wait() != 0:
        raise SystemExit(f"{' '.join(args)} ended with {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, shown


def main() -> None:
    """Print a line per command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    run(COMMANDS["unmask fill --candidates 64"])  # writes the compiled modules
    runs = [{name: run(args) for name, args in COMMANDS.items()} for _ in range(times)]
    unit = min(one["import torch"][0] for one in runs)
    print(f"{'':28} {'seconds':>8} {'ratio':>6} {'first sign':>11}")
    for name in COMMANDS:
        spent, signs = min(one[name][0] for one in runs), [one[name][1] for one in runs]
        shown = "-" if None in signs else f"{min(sign for sign in signs if sign is not None):.2f}"
        print(f"{name:28} {spent:8.2f} {spent / unit:6.2f} {shown:>11}")


if __name__ == "__main__":
    main()
