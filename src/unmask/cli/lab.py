"""The commands `unmask lab ...`: made from the studies' own options, they call `unmask.lab` and print."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli.options import Json, path
from unmask.lab.options import STUDIES

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from unmask.lab.studies.study import Study, Table

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The theory of generative masked language models, computed exactly on small models.",
)

Out = Annotated[
    Path,
    typer.Option("--out", parser=path, metavar="PATH", help="Folder for figure and numbers: new, empty, or an earlier lab's."),
]
TYPES: dict[type, Any] = {int: int, float: float, str: str, type(None): Path | None}


def _add(name: str) -> None:
    """The command of one study; its options are the fields of STUDIES[name]."""
    kind = STUDIES[name]

    def command(**given: Any) -> None:
        from unmask import lab
        from unmask.cli.terminal import print_json, progress

        out, as_json = given.pop("out"), given.pop("as_json")
        with progress() as report:
            study = lab.study(name, out=out, progress=report, **given)
        if as_json:
            print_json(study.to_dict())
        else:
            _print_study(study, out)

    parameters = [Parameter("out", Parameter.KEYWORD_ONLY, default=Path("lab"), annotation=Out)]
    for field in fields(kind):
        names = [f"--{field.name.replace('_', '-')}", *([field.metadata["short"]] if field.metadata["short"] else [])]
        kind_of_value = TYPES[type(field.default)]
        parser: dict[str, Any] = {"parser": path, "metavar": "PATH"} if kind_of_value == Path | None else {}
        shown = typer.Option(*names, help=field.metadata["help"].replace("[", "\\["), **parser)
        annotation = Annotated[kind_of_value, shown]  # type: ignore[valid-type]
        parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation))
    parameters.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Json))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name=name, help=kind.__doc__)(command)


for _name in STUDIES:
    _add(_name)


@app.command(name="all")
def all_studies(
    out: Out = Path("lab-report"),
    fits: Annotated[int, typer.Option("--fits", help="Fits for each k and each loss in the Monte Carlo.")] = 300,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0,
    as_json: Json = False,
) -> None:
    """Every study with its defaults, and a report over them."""
    from unmask import lab
    from unmask.cli.terminal import console, print_heading, print_json, progress
    from unmask.lab.studies.study import without_markdown

    with progress() as report:
        made = lab.all_studies(out=out, fits=fits, seed=seed, progress=report)
    if as_json:
        print_json(made.to_dict())
        return
    screen = console()
    for study in made.studies:
        print_heading(screen, study.title)
        for finding in study.findings:
            screen.print("  - " + without_markdown(finding))
    screen.print(f"report: {out / 'report.md'}", soft_wrap=True)


def _print_study(study: Study, out: Path) -> None:
    from unmask.cli.terminal import console, print_heading
    from unmask.lab.studies.study import without_markdown

    screen = console()
    print_heading(screen, study.title)
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
