"""Commands of runs: `train`, `translate`, `serve`."""

from __future__ import annotations

from typing import Any

from unmask.cli import process, terminal
from unmask.runs.progress import Progress


def train(given: dict[str, Any]) -> None:
    """Print where the model is, and how to continue a run that is not finished."""
    made = terminal.answered("train", given, print, lines=True, watched=_with_plan)
    if made.status == "interrupted":
        raise KeyboardInterrupt
    if process.rank():
        return
    if not made.finished:
        terminal.messages().print(process.RESUME)
    elif "push_to" in given:
        terminal.messages().print(f"pushed to {given['push_to']}")


def _with_plan(report: Progress | None) -> Progress:
    """The same report; the first one of steps, which says how many there will be, is printed as a line."""
    printed = False

    def with_plan(done: int, total: int, what: str = "") -> None:
        nonlocal printed
        if total and not printed:
            terminal.messages().print(what, soft_wrap=True, highlight=False)
            printed, what = True, "training"
        if report:
            report(done, total, what)

    return with_plan


def translate(given: dict[str, Any]) -> None:
    """Print translations as JSON lines, and figures where there are references."""
    import unmask

    with terminal.progress() as report:
        made = unmask.translate(**given, progress=report)
    if "out" not in given:
        print(made.lines(), end="")
    if made.figures is not None:
        (terminal.console() if "out" in given else terminal.messages()).print(str(made.figures), soft_wrap=True, highlight=False)


def serve(given: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    import unmask

    try:
        unmask.serve(**given)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process
