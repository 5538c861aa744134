"""`unmask evaluate`, `train`, `translate` and `serve`: commands that take their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from unmask.cli import process, terminal
from unmask.joints.registry import named
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.evaluation.table import Evaluation


def evaluate(given: dict[str, Any]) -> None:
    """Print the table."""
    json, out = given.pop("json", False), given["out"]
    screen = terminal.messages()
    with terminal.progress(quiet=json) as report:
        from unmask.evaluation.evaluate import evaluate as run

        try:
            found = run(**given, progress=report)
        except KeyboardInterrupt:
            if out.is_dir():
                screen.print(f"stopped; what was measured is kept in {out}, and the same command goes on")
            raise
    for reason, count in found.skipped.items():
        screen.print(f"{count} texts skipped: {reason}")
    if json:
        terminal.print_json(found.to_dict())
    elif found.summary["pairs"]:
        _print_table(found)
        screen.print(f"\nintervals, rows and figures are in {out}")
    if found.failed:
        screen.print(
            f"{len(found.failed)} of {found.pairs} pairs failed, the first with {found.failed[0]['reason']}: "
            f"see {out / 'failures.jsonl'}; the same command tries them again",
            style="red",
        )
        raise typer.Exit(1)


def train(given: dict[str, Any]) -> None:
    """Print where the model is, and how to go on with a run that is not finished."""
    json = given.pop("json", False)
    import unmask

    with terminal.progress(lines=True) as report:
        made = unmask.train(**given, progress=_telling_the_plan(report))
    if json:
        terminal.print_json(made.to_dict())
    else:
        print(made)
    if not made.finished:
        terminal.messages().print("add --resume to the same command to go on")
        raise typer.Exit(process.INTERRUPTED if made.status == "interrupted" else 0)


def _telling_the_plan(report: Progress | None) -> Progress:
    """The same, with a line of its own for the first report of steps, which says how many there will be."""
    told = False

    def tell(done: int, total: int, what: str = "") -> None:
        nonlocal told
        if total and not told:
            terminal.messages().print(what, soft_wrap=True, highlight=False)
            told, what = True, "training"
        if report:
            report(done, total, what)

    return tell


def translate(given: dict[str, Any]) -> None:
    """Print translations as JSON lines, and figures where there are references."""
    from unmask.translation.translate import translate as run

    with terminal.progress() as report:
        made = run(**given, progress=report)
    if "out" not in given:
        print(made.lines(), end="")
    if made.figures is not None:
        (terminal.console() if "out" in given else terminal.messages()).print(str(made.figures), soft_wrap=True, highlight=False)


def serve(given: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    from unmask.serving.server import serve as run

    try:
        run(**given)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process


def _print_table(found: Evaluation) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = found.summary["pairs"]
    table = terminal.table(*HEADINGS.values(), "P-NLL per token\nminus product", first=f"{pairs:,} pairs")
    for row in found.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        table.add_row(named(row["construction"]).label, *numbers, difference)
    terminal.console().print(table)
