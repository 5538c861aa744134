"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes
where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from cyclopts import App

from unmask.studies.lab import STUDIES
from unmask.studies.lab import all as all_studies
from unmask.surfaces.cli.command import APP, JSON, command

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.studies.lab.study import Report, Study

COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
EXTRA = (JSON,)
"""Options that only the command line has."""
FOLDED = 14
"""Characters of a line of a heading, where the table is too wide."""
HELP = """The theory of generative masked language models, computed exactly on small models.

A study prints its findings. With --out FOLDER it also writes NAME.png and NAME.json there."""


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=HELP, **APP)
    for name, function in COMMANDS.items():
        one = command(name, function, partial(_run, name), EXTRA, group="unmask lab")
        group.command(one)
    return group


def _run(name: str, options: dict[str, Any]) -> None:
    """Compute a study, or all of them, and print the findings.

    options   the arguments of the study, and the values of EXTRA
    """
    from unmask.surfaces.cli import terminal  # help prints no result
    from unmask.surfaces.cli.printing import answered
    from unmask.surfaces.cli.show import print_heading

    def show(result: Study | Report) -> None:
        screen = terminal.console()
        for study in getattr(result, "studies", [result]):
            print_heading(screen, study.title)
            if name != "all":
                _print_table(screen, study)
            for finding in study.findings:
                screen.print(f"- {finding}")
            if "out" in options:
                for ending in ("png", "json"):
                    path = Path(options["out"]) / f"{study.name}.{ending}"
                    screen.print(f"{ending}: {path}", soft_wrap=True)

    answered(f"lab.{name}", options, show)


def _print_table(screen: Console, study: Study) -> None:
    """Print the table of a study, with what explains it above and below."""
    from unmask.studies.lab.study import cell_text
    from unmask.surfaces.cli.terminal import print_table

    rows = [[cell_text(cell) for cell in row] for row in study.rows]
    columns = zip(study.columns, *rows, strict=True)
    width = sum(_width(column) for column in columns)
    first, *heads = study.columns
    if width > screen.width:
        heads = [fill(head, FOLDED) for head in heads]
    screen.print(study.caption)
    print_table(screen, heads, rows, first=first)
    if study.note:
        screen.print(study.note)


def _width(cells: Sequence[str]) -> int:
    """Columns of the terminal that a column of the table takes, with the gap beside it."""
    return max(len(cell) for cell in cells) + 2
