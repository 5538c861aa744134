"""`unmask evaluate`: the paper's Table 1 for a model and a text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.joints.registry import FORMS, named

if TYPE_CHECKING:
    from unmask.evaluation.evaluation import Evaluation


class Scheme(StrEnum):
    """How a pair is chosen in a text."""

    random = "random"
    contiguous = "contiguous"


class Support(StrEnum):
    """What the joints run over."""

    regular = "regular"
    all = "all"


class EngineName(StrEnum):
    """What runs the pairs."""

    local = "local"
    ray = "ray"


def evaluate(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            parser=options.path,
            metavar="PATH",
            help="Folder of the run; the same command continues a run that was stopped.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option("--data", help="Texts: a file with one per line, .conllu, .fasta, - (standard input), or snli or xsum."),
    ] = None,
    pairs_file: Annotated[
        str | None,
        typer.Option("--pairs-file", help='Pairs instead of texts: JSON Lines, {"text": ..., "block": \\[i, j]}, in tokens.'),
    ] = None,
    model: options.Model = None,
    scheme: Annotated[Scheme, typer.Option("--scheme", help="Two positions anywhere, or two adjacent ones.")] = Scheme.random,
    pairs: Annotated[int, typer.Option("--pairs", help="How many pairs to choose.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the choice of pairs and of the bootstrap.")] = 0,
    joints: Annotated[
        str,
        typer.Option("--joints", help=f"all, or some of {', '.join(FORMS)}, separated by commas."),
    ] = "all",
    arnold_gokhale_steps: Annotated[
        int | None,
        typer.Option(
            "--arnold-gokhale-steps",
            help="Stop Arnold-Gokhale after this many steps from uniform (the paper: 50); run to convergence if left out.",
        ),
    ] = None,
    support: Annotated[
        Support,
        typer.Option("--support", help="What joints run over: regular tokens, or all columns of the model's output (the paper)."),
    ] = Support.regular,
    alphabet: options.Alphabet = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            help="What the run may keep on the device, such as 20GB or 0.5; as many pairs as fit are measured at once.",
        ),
    ] = None,
    rename: options.Rename = None,
    engine: Annotated[EngineName, typer.Option("--engine", help="This process, or Ray.")] = EngineName.local,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Workers on Ray; one per GPU, or per two CPUs, if left out.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper."""
    given = options.arguments(locals(), scheme=str, support=str, engine=str)
    from unmask.cli import terminal

    screen = terminal.messages()
    with terminal.progress(quiet=as_json) as report:
        from unmask.evaluation.evaluate import evaluate as run

        try:
            found = run(**given, progress=report)
        except KeyboardInterrupt:
            if out.is_dir():
                screen.print(f"stopped; what was measured is kept in {out}, and the same command goes on")
            raise typer.Exit(130) from None
    for reason, count in found.skipped.items():
        screen.print(f"{count} texts skipped: {reason}")
    if as_json:
        terminal.print_json(found.to_dict())
    elif found.summary["pairs"]:
        _print(found)
        screen.print(f"\nintervals, rows and figures are in {out}")
    if found.failed:
        screen.print(
            f"{len(found.failed)} of {found.pairs} pairs failed, the first with {found.failed[0]['reason']}: "
            f"see {out / 'failures.jsonl'}; the same command tries them again",
            style="red",
        )
        raise typer.Exit(1)


def _print(found: Evaluation) -> None:
    from unmask.cli import terminal
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = found.summary["pairs"]
    table = terminal.table(*HEADINGS.values(), "P-NLL per token\nminus product", first=f"{pairs:,} pairs")
    for row in found.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        table.add_row(named(row["construction"]).label, *numbers, difference)
    terminal.console().print(table)
