"""The commands `unmask lab ...`: they call `unmask.lab` and print."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from unmask.cli import terminal
from unmask.cli.build import command
from unmask.options import VERBS
from unmask.options.lab import STUDIES, AllOptions, with_output

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from unmask.lab.studies.study import Study, Table

STUDY, REPORT = "lab", "lab-report"
"""Folders of a study and of all of them."""
ALL = "Every study with its defaults, and a report over them."


def group() -> TyperGroup:
    """All of them."""
    made = {}
    for name, kind in STUDIES.items():
        made[name] = command(name, kind.__doc__ or "", with_output(kind, STUDY), partial(_study, name))
    made["all"] = command("all", ALL, with_output(AllOptions, REPORT), _all_studies)
    return TyperGroup(name="lab", help=VERBS["lab"], commands=made, no_args_is_help=True)


def _study(name: str, given: dict[str, Any]) -> None:
    from unmask import lab

    json, out = given.pop("json", False), given.pop("out", Path(STUDY))
    with terminal.progress() as report:
        study = lab.study(name, out=out, progress=report, **given)
    if json:
        terminal.print_json(study.to_dict())
    else:
        _print_study(study, out)


def _all_studies(given: dict[str, Any]) -> None:
    from unmask import lab
    from unmask.lab.studies.study import without_markdown

    json, out = given.pop("json", False), given.pop("out", Path(REPORT))
    with terminal.progress() as report:
        made = lab.all_studies(out=out, progress=report, **given)
    if json:
        terminal.print_json(made.to_dict())
        return
    screen = terminal.console()
    for study in made.studies:
        terminal.print_heading(screen, study.title)
        for finding in study.findings:
            screen.print("  - " + without_markdown(finding))
    screen.print(f"report: {out / 'report.md'}", soft_wrap=True)


def _print_study(study: Study, out: Path) -> None:
    from unmask.lab.studies.study import without_markdown

    screen = terminal.console()
    terminal.print_heading(screen, study.title)
    for table in study.tables:
        screen.print(_shown(table))
    for finding in study.findings:
        screen.print("- " + without_markdown(finding))
    for ending in ("png", "json"):
        screen.print(f"{ending}: {out / f'{study.name}.{ending}'}", soft_wrap=True)


def _shown(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    note = Text(table.note) if table.note else None
    shown = RichTable(title=Text(table.title), caption=note, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for index, column in enumerate(table.columns):
        numeric = all(isinstance(row[index], (int, float)) for row in table.rows)
        shown.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.cells():
        shown.add_row(*(Text(cell) for cell in row))
    return shown
