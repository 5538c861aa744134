"""`unmask`, and `python -m unmask`: signals are heard first, then the command line is loaded
and run.
"""

import gc
import os
import sys

from unmask.surfaces.cli import process


def main() -> None:
    """The console script."""
    try:
        process.open_streams()
        process.listen()
        # Python's search for unreachable cycles, through all that torch has loaded, is a sixth
        # of a short command: it runs more rarely. The help of a command keeps 45,000 objects, and
        # ends before the first search. Threads of torch that wait should sleep: spinning ones
        # halve the speed on a machine with other work.
        gc.set_threshold(50_000)  # new objects between two searches; Python's own number is 700
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from unmask.surfaces.cli.app import run

        process.leave(run(sys.argv[1:]))
    finally:
        if process.interrupted():
            process.leave()


if __name__ == "__main__":
    main()
