"""`unmask lab STUDY`: a command for each study; without a study, what each computes and writes where."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from unmask.cli import terminal
from unmask.cli.command import APP, JSON, command
from unmask.cli.printing import answered
from unmask.errors import InputError
from unmask.lab import STUDIES
from unmask.lab import all as all_studies
from unmask.signature import summary

if TYPE_CHECKING:
    from unmask.lab.studies import Report, Study

FOLDER = Path("lab-report")
"""Where the commands write without --out."""
COMMANDS: dict[str, Callable[..., Any]] = {**STUDIES, "all": all_studies}
TITLE = "The theory of generative masked language models, computed exactly on small models."


def app() -> App:
    """`unmask lab`, with its commands."""
    group = App(name="lab", help=TITLE, **APP)
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


def _run(name: str, options: dict[str, Any]) -> None:
    out = Path(options.setdefault("out", FOLDER))
    files = ["report.md"] if name == "all" else [f"{name}.png", f"{name}.json"]

    def show(result: Study | Report) -> None:
        from unmask.lab.studies import without_markdown

        screen = terminal.console()
        for study in getattr(result, "studies", [result]):
            terminal.print_heading(screen, study.title)
            for table in [study.table] if name != "all" else ():
                screen.print(table.title)
                terminal.print_table(screen, table.columns[1:], table.cells(), first=table.columns[0])
                screen.print(*([table.note] if table.note else []))
            for finding in study.findings:
                screen.print(f"- {without_markdown(finding)}")
        for file in files:
            screen.print(f"{Path(file).suffix[1:]}: {out / file}", soft_wrap=True)

    every = "NAME.png and NAME.json of every study, and " if name == "all" else ""
    answered(f"lab.{name}", options, show, plan=f"writes {every}{' and '.join(files)} to {out}")
