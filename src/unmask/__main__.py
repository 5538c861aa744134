"""`unmask`, and `python -m unmask`: signals are heard first, then the command line is loaded and run."""

from unmask.cli import process


def main() -> None:
    """The console script. After an interrupt it does not wait for Python to take down what was loaded."""
    process.listen()
    try:
        from unmask.cli.app import main as run

        run()
    except BaseException:
        if process.interrupted():
            process.leave_now()
        raise


if __name__ == "__main__":
    main()
