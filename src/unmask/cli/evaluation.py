"""`unmask evaluate` and `unmask frontier`: tables, and what was left out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import terminal
from unmask.joints.registry import named

if TYPE_CHECKING:
    from unmask.evaluation.frontier import Frontier
    from unmask.evaluation.table import Evaluation


def evaluate(given: dict[str, Any]) -> int:
    """Print the table, and what was left out; 1 if pairs failed."""
    out = given.get("out")
    evaluation = terminal.answered("evaluate", given, partial(_print_evaluation, out=out))
    _print_skipped(evaluation)
    if not evaluation.failed:
        return 0
    where = "" if out is None else f"see {Path(out) / 'failures.jsonl'}; "
    terminal.messages().print(
        f"{len(evaluation.failed)} of {evaluation.pairs} pairs failed, the first with {evaluation.failed[0]['reason']}: "
        f"{where}the same command tries them again",
        style="red",
    )
    return 1


def _print_evaluation(evaluation: Evaluation, out: Any) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = evaluation.summary["pairs"]
    if not pairs:
        return
    rows = []
    for row in evaluation.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        rows.append([named(row["construction"]).label, *numbers, difference])
    heads = [*HEADINGS.values(), "P-NLL per token\nminus product"]
    terminal.print_table(terminal.console(), heads, rows, first=f"{pairs:,} pairs")
    _print_place("intervals, rows and figures", out)


def frontier(given: dict[str, Any]) -> None:
    """Print the table."""
    _print_skipped(terminal.answered("frontier", given, partial(_print_frontier, out=given.get("out"))))


def _print_frontier(frontier: Frontier, out: Any) -> None:
    from unmask.evaluation.frontier import cells

    console = terminal.console(at_least=terminal.USUAL)
    console.print(frontier.headline, soft_wrap=True)
    rows = ([point["decoder"], *cells(point)] for point in frontier.points)
    terminal.print_table(console, ["passes", "nats per token", f"minus {frontier.best}"], rows, first="decoder")
    _print_place("rows, table and figure", out)


def _print_place(what: str, out: Any) -> None:
    terminal.messages().print(f"\n{what} are not kept: give --out FOLDER" if out is None else f"\n{what} are in {out}")


def _print_skipped(result: Evaluation | Frontier) -> None:
    for reason, count in result.skipped.items():
        terminal.messages().print(f"{count} {'text' if count == 1 else 'texts'} skipped: {reason}")
