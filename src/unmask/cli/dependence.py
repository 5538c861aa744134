"""`unmask dependence`: how much the blanks, or the tokens, of a text depend on each other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.joints.registry import FORMS

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.dependence import Dependence

WIDEST = 10
"""Positions whose matrix fits into 80 columns; of more, the strongest pairs are listed."""
LISTED = 20


class OthersName(StrEnum):
    """What stands at the other positions while a pair is measured."""

    masked = "masked"
    text = "text"


def dependence(
    text: Annotated[
        str,
        typer.Argument(
            help="Text with \\[MASK] at two blanks or more, or a whole text; - reads it from standard input.", show_default=False
        ),
    ],
    joint: Annotated[
        str, typer.Option("--joint", "-j", help=f"How a pair's joint is derived: {', '.join(FORMS)}.")
    ] = "pseudo_gibbs",
    others: Annotated[
        OthersName | None,
        typer.Option(
            "--others",
            help="What stands at the other positions while a pair is measured: masked (if left out, for blanks), or the "
            "text itself (if left out, for a whole text).",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates",
            "-n",
            min=1,
            help="Tokens to consider at each position; 32 to 256, by how many positions, if left out.",
        ),
    ] = None,
    exact: options.Exact = False,
    model: options.Model = None,
    positions: Annotated[
        str | None,
        typer.Option(
            "--positions", help="Which tokens of a whole text, such as 2,3,6 (all if left out); the first, usually \\[CLS], is 0."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the matrix as a heat map to this file (png, pdf, svg).")
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    force: Annotated[bool, typer.Option("--force", help="Go on where there are more than 200,000 passes.")] = False,
    json: options.Json = False,
) -> None:
    """Measure how much blanks, or tokens, depend on each other: the mutual information of every pair."""
    from unmask.cli import terminal

    text = options.read_text(text)
    with terminal.progress(quiet=json) as report:
        from unmask.answers.dependence import dependence as measure
        from unmask.answers.plots import check_figure_path, dependence_map

        if figure is not None:
            check_figure_path(figure)
        found = measure(
            text,
            model=model,
            positions=options.read_positions(positions),
            joint=joint,
            others=None if others is None else others.value,
            candidates=candidates,
            exact=exact,
            device=device,
            dtype=dtype,
            force=force,
            progress=report,
        )
        if figure is not None:
            dependence_map(found).savefig(figure, dpi=150)
    if json:
        terminal.print_json(found.to_dict())
    else:
        _print(found, terminal.console(at_least=80))


def _print(found: Dependence, console: Console) -> None:
    from rich.markup import escape

    from unmask.cli import terminal

    names = [escape(name) for name in found.names()]
    terminal.print_heading(console, found.text)
    beside = "the other blanks masked" if found.others == "masked" else "the other tokens as they stand"
    console.print(
        f"mutual information of each pair (nats), {beside};\n{found.construction} joints; "
        f"{terminal.shape([found.candidates] * 2)} tokens hold at least {100 * found.least_mass:.1f} % of a product joint\n"
    )
    if len(names) <= WIDEST:
        table = terminal.table(*[str(position) for position in found.positions], first="token")
        for i, name in enumerate(names):
            row = [terminal.nats(value) if i != j else "-" for j, value in enumerate(found.matrix[i].tolist())]
            table.add_row(name, *row)
    else:
        table = terminal.table("nats", first="pair")
        for i, j, value in found.pairs()[:LISTED]:
            table.add_row(f"{names[i]} - {names[j]}", terminal.nats(value))
    console.print(table)
    if len(names) > WIDEST:
        console.print(
            f"\nthe {min(LISTED, len(found.pairs()))} strongest of {len(found.pairs())} pairs; --figure and --json have all"
        )
