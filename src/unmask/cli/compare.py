"""`unmask compare`: every construction on one text, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.comparison import Comparison


def compare(
    text: options.Text,
    candidates: options.Candidates = None,
    exact: options.Exact = False,
    top: options.Top = 10,
    model: options.Model = None,
    positions: options.Positions = None,
    targets: Annotated[
        str | None, typer.Option("--targets", help="The words that belong in the blanks, separated by commas: adds the metrics.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Draw the joint of two blanks, independent and balanced, to this file (png, pdf, svg)."),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Put the joints of all constructions side by side: completions, entropy, dependence, and faithfulness to the model."""
    from unmask.cli import terminal

    text = options.read_text(text)
    with terminal.progress(quiet=json) as report:
        from unmask.answers.comparison import compare as compare_joints
        from unmask.answers.plots import check_figure_path, pair_joints

        if figure is not None:
            check_figure_path(figure)
        comparison = compare_joints(
            text,
            model=model,
            candidates=candidates,
            exact=exact,
            top=top,
            positions=options.read_positions(positions),
            targets=None if targets is None else [word.strip() for word in targets.split(",")],
            device=device,
            dtype=dtype,
            force=force,
            progress=report,
        )
        described = comparison.to_dict()
        if figure is not None:
            shown = [comparison.joints["product"], comparison.joints["balanced"]]
            pair_joints(shown, title=comparison.text).savefig(figure, dpi=150)
    if json:
        terminal.print_json(described)
    else:
        _print(comparison, terminal.console(at_least=80))


def _print(comparison: Comparison, console: Console) -> None:
    from unmask.cli import terminal

    joint = next(iter(comparison.joints.values()))
    terminal.print_heading(console, comparison.text)
    console.print(f"{joint.sites} blanks; {terminal.shape(joint.shape)} {terminal.mass(comparison.candidates_mass)}\n")
    console.print("Probability of a completion (%) under each construction")
    table = terminal.table(*[name.replace("_", "\n") for name in comparison.joints], first="completion")
    for completion in comparison.completions:
        name = terminal.tokens(completion.tokens) + (" *" if completion.is_gold else "")
        table.add_row(name, *[terminal.short_percent(p) for p in completion.log_probs.values()])
    console.print(table)
    known = comparison.cloze.gold is not None
    if known:
        console.print("* the tokens given")
    dependence = "mutual\ninformation" if joint.sites == 2 else "total\ncorrelation"
    console.print("\nEntropy, dependence, and divergence from the model's own conditionals (nats)")
    columns = ["entropy", dependence, "A-KL", *(["G-KL", "U-PPL", "P-PPL"] if known else [])]
    table = terminal.table(*columns, first="construction")
    for construction, row in comparison.descriptions.items():
        in_nats = [row.entropy, row.total_correlation, row.a_kl, *([row.g_kl] if row.g_kl is not None else [])]
        perplexities = [terminal.perplexity(p) for p in (row.u_ppl, row.p_ppl) if p is not None]
        table.add_row(construction, *map(terminal.nats, in_nats), *perplexities)
    console.print(table)
    console.print(f"\ncompatibility {terminal.nats(comparison.compatibility)} (0: one joint has all these conditionals)")
