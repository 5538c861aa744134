"""Commands `train` and `translate`."""

from __future__ import annotations

from typing import Any

from unmask.cli import process, terminal
from unmask.runs.progress import Progress


def train(given: dict[str, Any]) -> None:
    """Print where the model is, and how to continue a run that is not finished."""
    run = terminal.answered("train", given, print, lines=True, watched=_with_plan)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if not run.finished and process.rank() == 0:
        terminal.messages().print(process.RESUME)


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
        translations = unmask.translate(**given, progress=report)
    if "save" not in given:
        print(translations.lines(), end="")
    if translations.figures is not None:
        screen = terminal.console() if "save" in given else terminal.messages()
        screen.print(str(translations.figures), soft_wrap=True, highlight=False)
