"""`unmask evaluate`: the paper's Table 1 for a model and a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.joints.registry import FORMS, all_named, named

if TYPE_CHECKING:
    from rich.console import Console


class Scheme(StrEnum):
    """How a pair is chosen in a text."""

    random = "random"
    contiguous = "contiguous"


class EngineName(StrEnum):
    """What runs the pairs."""

    local = "local"
    ray = "ray"


def evaluate(
    out: Annotated[Path, typer.Option("--out", help="Folder of the run; the same command continues a run that was stopped.")],
    data: Annotated[
        str | None, typer.Option("--data", help="Texts: a file with one a line, .conllu, .fasta, or the name snli or xsum.")
    ] = None,
    pairs_file: Annotated[
        str | None,
        typer.Option("--pairs-file", help='Pairs instead of texts: JSON Lines, {"text": ..., "block": \\[i, j]}, in tokens.'),
    ] = None,
    model: options.Model = None,
    scheme: Annotated[Scheme, typer.Option("--scheme", help="Two positions anywhere, or two adjacent ones.")] = Scheme.random,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How many pairs to choose.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the choice of pairs and of the bootstrap.")] = 0,
    joints: Annotated[
        str,
        typer.Option("--joints", help=f"all, or some of {', '.join(FORMS)}, separated by commas."),
    ] = "all",
    arnold_gokhale_steps: Annotated[
        int | None,
        typer.Option(
            "--arnold-gokhale-steps",
            min=1,
            help="Stop Arnold-Gokhale after this many steps from uniform (the paper: 50); run to convergence if left out.",
        ),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    engine: Annotated[EngineName, typer.Option("--engine", help="This process, or Ray.")] = EngineName.local,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Workers on Ray; one a GPU, or one for two CPUs, if left out.")
    ] = None,
) -> None:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, soft_wrap=True)
    with _progress(screen) as report:
        from unmask.evaluation.evaluate import evaluate as run_evaluation
        from unmask.evaluation.plan import Request

        names = tuple(construction.name for construction in all_named(joints))
        request = Request(
            model, data, pairs_file, scheme.value, pairs, seed, names, arnold_gokhale_steps, device=device, dtype=dtype
        )
        try:
            outcome = run_evaluation(request, out, engine.value, workers, report)
        except KeyboardInterrupt:
            screen.print(f"stopped; what was measured is kept in {out}, and the same command goes on")
            raise typer.Exit(130) from None
    for reason, count in outcome.skipped.items():
        screen.print(f"{count} texts skipped: {reason}")
    if outcome.summary is not None:
        _print(outcome.summary)
        screen.print(f"\nintervals, rows and figures are in {out}")
    if outcome.failed:
        screen.print(
            f"{len(outcome.failed)} of {outcome.pairs} pairs failed, the first with {outcome.failed[0]['reason']}: "
            f"see {out / 'failures.jsonl'}; the same command tries them again",
            style="red",
        )
        raise typer.Exit(1)


def _print(summary: Mapping[str, Any]) -> None:
    from unmask.cli import terminal
    from unmask.evaluation.table import HEADINGS, cell, written

    table = terminal.table(*HEADINGS.values(), "P-NLL a token\nminus product", first=f"{summary['pairs']:,} pairs")
    for row in summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        table.add_row(named(row["construction"]).label, *numbers, difference)
    terminal.console().print(table, markup=False)


@contextmanager
def _progress(screen: Console) -> Iterator[Callable[[int, int, int], None] | None]:
    """A bar where standard error is a terminal: pairs done, failed, in all, and the time left."""
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("loading", total=None)

        def report(done: int, failed: int, total: int) -> None:
            bar.update(task, completed=done + failed, total=total, description=f"pairs ({failed} failed)" if failed else "pairs")

        yield report
