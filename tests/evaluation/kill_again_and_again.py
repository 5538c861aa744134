"""Run by test_kill.py: an evaluation that dies of SIGKILL at ten random moments, then is let finish.

Everything is loaded once and each life of the run is a fork, so that a kill falls into choosing, measuring or writing and
not into importing: after up to five more stored pairs, or one more batch, and a random part of the time that these take.
Prints how many pairs were stored at each death.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pyarrow.parquet

import unmask
from unmask.evaluation import measure


def main(model: str, data: str, folder: str, pairs: int, at_once: int) -> None:
    loaded = unmask.MaskedLM.load(model, device="cpu")
    whole, killed = Path(folder) / "whole", Path(folder) / "killed"
    measure.ON_A_CPU = at_once

    def run(out: Path) -> None:
        unmask.evaluate(data, model=loaded, pairs=pairs, joints=("product", "mrf", "pseudo_gibbs"), out=out)

    run(whole)
    seconds = json.loads((whole / "table.json").read_text())["median_seconds_a_pair"] * at_once
    draw = random.Random()
    for _ in range(10):
        enough = stored(killed) + draw.randint(0, 5 if at_once == 1 else 1)
        child = os.fork()
        if not child:
            run(killed)
            os._exit(0)
        while stored(killed) < min(enough, pairs):
            time.sleep(seconds / 10)
        time.sleep(draw.uniform(0, 2 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(stored(killed), end=" ", flush=True)
    run(killed)


def stored(folder: Path) -> int:
    """How many pairs are on the disk."""
    return sum(pyarrow.parquet.read_metadata(part).num_rows // 3 for part in (folder / "parts").glob("part-*.parquet"))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
