"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes where."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from unmask.cli import terminal
from unmask.cli.command import command
from unmask.errors import InputError
from unmask.lab import STUDIES
from unmask.lab import all as all_studies
from unmask.signature import Option, summary

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from unmask.lab.study import Report, Study, Table

FOLDER = Path("lab-report")
"""Where the commands write without --out."""
JSON = Option("json", bool, False, "Print JSON.", "json", owner=None)
COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
TITLE = "The theory of generative masked language models, computed exactly on small models."


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=TITLE, help_format="plaintext", version_flags=(), help_flags=("--help", "-h"))
    for name, function in COMMANDS.items():
        group.command(command(name, function, partial(_run, name), [JSON]))
    group.default(_overview)
    return group


def _overview(*words: Annotated[str, Parameter(show=False)]) -> None:
    """Print the studies, and where they write."""
    for word in words:
        near = get_close_matches(word, COMMANDS, n=1)
        use = f"use unmask lab {near[0]}" if near else f"use one of {', '.join(COMMANDS)}"
        raise InputError(f"{word} is not a study of the lab: {use}")
    lines = [f"  {name:11} {summary(function)}" for name, function in COMMANDS.items()]
    files = f"A study prints its findings and writes NAME.png and NAME.json to {FOLDER}; all also writes report.md."
    print("\n".join([TITLE, "", *lines, "", files, "unmask lab STUDY --help shows its options; --out FOLDER writes elsewhere."]))


def _run(name: str, given: dict[str, Any]) -> None:
    given.setdefault("out", FOLDER)
    show = _print_report if name == "all" else _print_study
    terminal.answered(f"lab.{name}", given, partial(show, Path(given["out"])))


def _print_study(out: Path, study: Study) -> None:
    screen = terminal.console()
    _print_findings(study, "- ", study.tables)
    for ending in ("png", "json"):
        screen.print(f"{ending}: {out / f'{study.name}.{ending}'}", soft_wrap=True)


def _print_report(out: Path, report: Report) -> None:
    for study in report.studies:
        _print_findings(study, "  - ")
    terminal.console().print(f"report: {out / 'report.md'}", soft_wrap=True)


def _print_findings(study: Study, mark: str, tables: Any = ()) -> None:
    from unmask.lab.study import without_markdown

    screen = terminal.console()
    terminal.print_heading(screen, study.title)
    for table in tables:
        screen.print(_as_rich(table))
    for finding in study.findings:
        screen.print(mark + without_markdown(finding))


def _as_rich(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    note = Text(table.note) if table.note else None
    made = RichTable(title=Text(table.title), caption=note, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for index, column in enumerate(table.columns):
        numeric = all(isinstance(row[index], (int, float)) for row in table.rows)
        made.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.cells():
        made.add_row(*(Text(cell) for cell in row))
    return made
