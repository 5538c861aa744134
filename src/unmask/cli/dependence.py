"""`unmask dependence`: how much the blanks, or the tokens, of a text depend on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.answering import answer

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.dependence import Dependence

WIDEST = 10
"""Positions whose matrix fits into 80 columns; of more, the strongest pairs are listed."""
LISTED = 20


def dependence(
    text: Annotated[
        str | None,
        typer.Argument(
            help="Text with \\[MASK] at two blanks or more, or a whole text; - reads texts from standard input, one per line.",
            show_default=False,
        ),
    ] = None,
    file: options.File = None,
    joint: options.Joint = "pseudo_gibbs",
    others: Annotated[
        str | None,
        typer.Option(
            "--others",
            help="What stands at the other positions while a pair is measured: masked (if left out, for blanks), or the "
            "text itself (text; if left out, for a whole text).",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates", "-n", help="Tokens to consider at each position; 32 to 256, by how many positions, if left out."
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
    alphabet: options.Alphabet = None,
    figure: options.Figure = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    force: Annotated[bool, typer.Option("--force", help="Go on where there are more than 200,000 passes.")] = False,
    json: options.Json = False,
) -> None:
    """Measure how much blanks, or tokens, depend on each other: the mutual information of every pair.

    The figure shows the matrix as a heat map.
    """
    answer("dependence", _show, locals(), positions=options.read_positions)


def _show(found: Dependence, console: Console) -> None:
    from unmask.cli import terminal
    from unmask.formats import percent_at_least

    names = found.names()
    terminal.print_heading(console, found.text)
    beside = "the other blanks masked" if found.others == "masked" else "the other tokens as they stand"
    console.print(
        f"mutual information of each pair (nats), {beside};\n{found.construction} joints; "
        f"{terminal.shape([found.candidates] * 2)} tokens hold at least {percent_at_least(found.least_mass)} of a product joint\n"
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
