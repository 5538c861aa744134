"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes
where.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from cyclopts import App

from unmask.studies.lab import STUDIES
from unmask.studies.lab import all as all_studies
from unmask.surfaces.cli import terminal
from unmask.surfaces.cli.command import APP, JSON, command
from unmask.surfaces.cli.printing import answered

if TYPE_CHECKING:
    from unmask.studies.lab.study import Report, Study

COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
HELP = """The theory of generative masked language models, computed exactly on small models.

A study prints its findings. With --out FOLDER it also writes NAME.png and NAME.json there."""


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=HELP, **APP)
    for name, function in COMMANDS.items():
        group.command(command(name, function, partial(_run, name), [JSON]))
    return group


def _run(name: str, options: dict[str, Any]) -> None:
    def show(result: Study | Report) -> None:
        from unmask.studies.lab.study import cell_text

        screen = terminal.console()
        for study in getattr(result, "studies", [result]):
            terminal.print_heading(screen, study.title)
            if name != "all":
                screen.print(study.heading)
                cells, (first, *heads) = (
                    [[cell_text(cell) for cell in row] for row in study.rows],
                    study.columns,
                )
                widths = [
                    max(map(len, column)) + 2 for column in zip(study.columns, *cells, strict=True)
                ]
                heads = heads if sum(widths) <= screen.width else [fill(name, 14) for name in heads]
                terminal.print_table(screen, heads, cells, first=first)
                screen.print(*([study.note] if study.note else []))
            for finding in study.findings:
                screen.print(f"- {finding}")
            for ending in ("png", "json") if "out" in options else ():
                screen.print(
                    f"{ending}: {Path(options['out']) / study.name}.{ending}", soft_wrap=True
                )

    answered(f"lab.{name}", options, show)
