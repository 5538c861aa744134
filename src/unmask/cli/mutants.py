"""`unmask mutants`: what a model says of single and multiple mutants of a sequence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.answering import answer
from unmask.joints.registry import DEFAULT_OF_MUTANTS

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.mutants import Mutants


def mutants(
    sequence: Annotated[
        str | None,
        typer.Argument(
            help="A sequence, such as a protein; - reads sequences from standard input, one per line.", show_default=False
        ),
    ] = None,
    file: options.File = None,
    mutations: Annotated[
        str | None,
        typer.Option(
            "--mutations", help="Mutants by name, such as A24G,A24G+L30V, or a file of them, one per line.", show_default=False
        ),
    ] = None,
    positions: Annotated[
        str | None, typer.Option("--positions", help="Or residues to scan, such as 24,30-33, or all; the first is 1.")
    ] = None,
    changes: Annotated[int, typer.Option("--changes", help="How many residues of a scan change together, 1 to 4.")] = 1,
    model: options.Model = None,
    joint: options.Joint = DEFAULT_OF_MUTANTS,
    alphabet: options.Alphabet = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=options.path, metavar="PATH", help="Parquet file for all mutants and their numbers."),
    ] = None,
    figure: options.Figure = None,
    top: Annotated[int, typer.Option("--top", "-t", help="How many mutants to print, best first.")] = 20,
    by: Annotated[
        str, typer.Option("--by", help="What ranks them: effect, epistasis, log_prob, singles or interaction.")
    ] = "effect",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    force: Annotated[bool, typer.Option("--force", help="Go on beyond 200,000 passes or five million mutants.")] = False,
    json: options.Json = False,
) -> None:
    """Log-probabilities of mutants of a sequence, the sum of their single effects, and the difference: epistasis.

    Exact over the alphabet for up to four changes. The figure is a heat map: effects of single changes, or epistasis of pairs.
    """
    answer("mutants", _show, locals())


def _show(found: Mutants, console: Console) -> None:
    from unmask.cli import terminal

    terminal.print_heading(console, found.sequence)
    console.print(f"{len(found):,} mutants; {found.joint} joint; {len(found.alphabet)} tokens per residue; in nats\n")
    best = found.best()
    table = terminal.table("log-prob.", "effect", "singles", "epistasis", "interaction", first="mutant")
    for i, name in enumerate(best.mutants):
        table.add_row(name, *[f"{best.numbers[column][i]:.3f}" for column in best.numbers])
    console.print(table)
    if len(best) < len(found):
        console.print(f"\nthe {len(best)} of largest {found.by}; --out and --json have all")
