"""`unmask evaluate`, `frontier`, `train`, `translate` and `serve`: commands that run for long."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from unmask.cli import process, terminal
from unmask.joints.registry import named
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.evaluation.frontier_table import Frontier
    from unmask.evaluation.table import Evaluation


def evaluate(given: dict[str, Any]) -> None:
    """Print the table."""
    json, out = given.pop("json", False), given["out"]
    screen = terminal.messages()
    with terminal.progress(quiet=json) as report:
        import unmask

        found = unmask.evaluate(**given, progress=report)
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


def frontier(given: dict[str, Any]) -> None:
    """Print the table."""
    out = given["out"]
    terminal.answered("frontier", given, partial(_print_frontier, out))


def _print_frontier(out: Any, found: Frontier) -> None:
    from unmask.evaluation.frontier_table import cells

    table = terminal.table("passes", "nats per token", f"minus {found.best}", first="decoder")
    for point in found.points:
        table.add_row(point["decoder"], *cells(point))
    console = terminal.console(at_least=terminal.USUAL)
    console.print(found.title(), soft_wrap=True)
    console.print(table)
    terminal.messages().print(f"\nrows, table and figure are in {out}")


def train(given: dict[str, Any]) -> None:
    """Print where the model is, and how to continue a run that is not finished."""
    json = given.pop("json", False)
    import unmask

    with terminal.progress(lines=True) as report:
        made = unmask.train(**given, progress=_with_plan(report))
    if json:
        terminal.print_json(made.to_dict())
    else:
        print(made)
    if made.status == "interrupted":
        raise KeyboardInterrupt
    if not made.finished:
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


def _print_table(found: Evaluation) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = found.summary["pairs"]
    table = terminal.table(*HEADINGS.values(), "P-NLL per token\nminus product", first=f"{pairs:,} pairs")
    for row in found.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        table.add_row(named(row["construction"]).label, *numbers, difference)
    terminal.console().print(table)
