"""`unmask`, and `python -m unmask`: signals are heard first, then the command line is loaded and run.

Python's search for unreachable cycles, through all that torch has loaded, is a sixth of a short command: it runs more rarely, and
not at the end. Nor are modules taken down one by one at the end (`process.end`), a twelfth more.
"""

import atexit
import gc

from unmask.cli import process


def main() -> None:
    """The console script. After an interrupt it does not wait for Python to take down what was loaded."""
    try:
        process.listen()
        gc.set_threshold(20_000)  # new objects between two searches; Python's own number is 700
        atexit.register(process.end)
        from unmask.cli.app import main as run

        run()
    except BaseException:
        if process.interrupted():
            process.leave_now()
        raise


if __name__ == "__main__":
    main()
