"""Run by test_kill.py: an evaluation that dies of SIGKILL at ten moments of its writing, then
is let finish.

Everything is loaded once and each life of the run is a fork. A life ends before a file is on
the disk (as it is synchronised), or after it has its name: what is on the disk does not change
at any other moment. Prints how many pairs were stored at each death.
"""

import os
import random
import signal
import sys
from pathlib import Path

import pyarrow.parquet

import unmask
from unmask.studies.evaluation import measure, stored_rows


def main(model: str, data: str, folder: str, pairs: int, at_once: int) -> None:
    loaded = unmask.MaskedLM.load(model, device="cpu")
    measure.ON_A_CPU = at_once
    stored_rows.MOST_ROWS_PER_PART = 1  # every batch is a part

    def run(name: str) -> None:
        unmask.evaluate(
            data,
            model=loaded,
            pairs=pairs,
            constructions=("product", "mrf", "pseudo_gibbs"),
            out=Path(folder) / name,
        )

    run("whole")
    draw = random.Random(0)
    for _ in range(10):
        name, calls = draw.choice(("fsync", "replace")), draw.randint(2, 6)
        child = os.fork()
        if not child:
            die_after(name, calls)
            run("killed")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        parts = (Path(folder) / "killed" / "parts").glob("part-*.parquet")
        print(
            sum(pyarrow.parquet.read_metadata(part).num_rows // 3 for part in parts),
            end=" ",
            flush=True,
        )
    run("killed")


def die_after(name: str, calls: int) -> None:
    """This process is killed by its call of `os.NAME` with this number: before it for fsync,
    after it for replace.
    """
    plain, made = getattr(os, name), []

    def counted(*args: object) -> None:
        made.append(args)
        if len(made) < calls or name == "replace":
            plain(*args)
        if len(made) == calls:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, name, counted)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
