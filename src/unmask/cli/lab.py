"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes where."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from cyclopts import App

from unmask.cli import terminal
from unmask.cli.command import APP, JSON, command
from unmask.cli.printing import answered
from unmask.lab import STUDIES
from unmask.lab import all as all_studies

if TYPE_CHECKING:
    from unmask.lab.studies import Report, Study

FOLDER = Path("lab-report")
"""Where the commands write without --out."""
COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
HELP = f"""The theory of generative masked language models, computed exactly on small models.

A study prints its findings and writes NAME.png and NAME.json to {FOLDER}, or to --out FOLDER."""


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=HELP, **APP)
    for name, function in COMMANDS.items():
        group.command(command(name, function, partial(_run, name), [JSON]))
    return group


def _run(name: str, options: dict[str, Any]) -> None:
    out = Path(options.setdefault("out", FOLDER))

    def show(result: Study | Report) -> None:
        screen = terminal.console()
        for study in getattr(result, "studies", [result]):
            terminal.print_heading(screen, study.title)
            if name != "all":
                table = study.table
                screen.print(table.title)
                cells = table.cells()
                widths = [max(map(len, column)) + 2 for column in zip(table.columns, *cells, strict=True)]
                heads = table.columns[1:] if sum(widths) <= screen.width else [fill(name, 14) for name in table.columns[1:]]
                terminal.print_table(screen, heads, cells, first=table.columns[0])
                screen.print(*([table.note] if table.note else []))
            for finding in study.findings:
                screen.print(f"- {finding}")
            for ending in ("png", "json"):
                screen.print(f"{ending}: {out / study.name}.{ending}", soft_wrap=True)

    answered(f"lab.{name}", options, show)
