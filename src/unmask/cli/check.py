"""`unmask check`: what was understood of a model that a user brings, and what looks wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options


def check(
    model: options.Model = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            parser=options.path,
            metavar="PATH",
            help="Texts of the kind it was trained on: one per line, or .fasta; - is standard input.",
        ),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    json: options.Json = False,
) -> None:
    """Say what was understood of a model (tokenizer, mask, head, longest text, speed) and what looks wrong.

    With --data, one token at a time is masked in those texts: a model that is read wrong shows in the accuracy.
    """
    from unmask.cli import terminal

    with terminal.progress(quiet=json) as report:
        import unmask

        found = unmask.check(
            model=model, data=data, device=device, dtype=dtype, rename=options.read_renames(rename), progress=report
        )
    if json:
        terminal.print_json(found.to_dict())
        return
    console = terminal.console()
    table = terminal.table()
    for name in ("name", "found"):
        table.add_column(name, overflow="fold")
    table.show_header = False
    for row in found.rows():
        table.add_row(*row)
    console.print(table)
    for concern in found.concerns:
        console.print(f"\nlooks wrong: {concern}", soft_wrap=True)
    if not found.concerns:
        console.print("\nnothing looks wrong" + ("" if data else "; give --data to measure it on your texts"))
