"""Commands of runs: `evaluate`, `frontier`, `serve`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unmask.cli import process, terminal
from unmask.joints.registry import named

if TYPE_CHECKING:
    from unmask.evaluation.frontier import Frontier
    from unmask.evaluation.table import Evaluation


def evaluate(given: dict[str, Any]) -> None:
    """Print the table, and what was left out."""
    out, screen = given["out"], terminal.messages()
    found = terminal.answered("evaluate", given, partial(_print_evaluation, out=out))
    _print_skipped(found)
    if found.failed:
        screen.print(
            f"{len(found.failed)} of {found.pairs} pairs failed, the first with {found.failed[0]['reason']}: "
            f"see {out / 'failures.jsonl'}; the same command tries them again",
            style="red",
        )
        raise typer.Exit(1)


def _print_evaluation(found: Evaluation, out: Path) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = found.summary["pairs"]
    if not pairs:
        return
    rows = []
    for row in found.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        rows.append([named(row["construction"]).label, *numbers, difference])
    heads = [*HEADINGS.values(), "P-NLL per token\nminus product"]
    terminal.print_table(terminal.console(), heads, rows, first=f"{pairs:,} pairs")
    terminal.messages().print(f"\nintervals, rows and figures are in {out}")


def frontier(given: dict[str, Any]) -> None:
    """Print the table."""
    _print_skipped(terminal.answered("frontier", given, partial(_print_frontier, given["out"])))


def _print_skipped(found: Evaluation | Frontier) -> None:
    for reason, count in found.skipped.items():
        terminal.messages().print(f"{count} {'text' if count == 1 else 'texts'} skipped: {reason}")


def _print_frontier(out: Any, found: Frontier) -> None:
    from unmask.evaluation.frontier import cells

    console = terminal.console(at_least=terminal.USUAL)
    console.print(found.title(), soft_wrap=True)
    rows = ([point["decoder"], *cells(point)] for point in found.points)
    terminal.print_table(console, ["passes", "nats per token", f"minus {found.best}"], rows, first="decoder")
    terminal.messages().print(f"\nrows, table and figure are in {out}")


def serve(given: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    import unmask

    try:
        unmask.serve(**given)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process
