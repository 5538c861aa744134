"""`unmask compare`: every construction on one text, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.answering import answer
from unmask.joints.registry import FORMS

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.comparison import Comparison


NARROW = {
    "product": "prod-\nuct",
    "arnold_gokhale": "arn.\ngokh.",
    "balanced": "bal-\nanced",
    "pseudo_gibbs": "ps.\ngibbs",
    "restarted": "re-\nstart",
}
"""Names as the heads of columns, where the registry's are too wide for all of them in 80 columns."""


def compare(
    text: options.Text = None,
    file: options.File = None,
    joints: Annotated[
        str, typer.Option("--joints", help=f"all, or some of {', '.join(FORMS)}, with commas between them.")
    ] = "all",
    joint: Annotated[
        str | None,
        typer.Option(
            "--joint", "-j", help="The construction by which completions are ranked; restarted if left out.", show_default=False
        ),
    ] = None,
    candidates: options.Candidates = None,
    exact: options.Exact = False,
    top: options.Top = 10,
    model: options.Model = None,
    positions: options.Positions = None,
    targets: options.Targets = None,
    alphabet: options.Alphabet = None,
    figure: options.Figure = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Put the joints of all constructions side by side: completions, entropy, dependence, faithfulness to the model.

    The figure shows the joint of two blanks, independent and by the default.
    """
    answer("compare", _show, locals(), positions=options.read_positions, targets=options.read_words)


def _show(comparison: Comparison, console: Console) -> None:
    from unmask.answers.asking import told_mass
    from unmask.cli import terminal

    joint = next(iter(comparison.joints.values()))
    terminal.print_heading(console, comparison.text)
    console.print(f"{joint.sites} blanks; {terminal.shape(joint.shape)} {told_mass(comparison.candidates_mass, joint.sites)}\n")
    console.print(f"Probability of a completion (%) under each construction, the best by {comparison.ranked_by}")
    names = [NARROW.get(name, name.replace("_", "\n")) for name in comparison.joints]
    table = terminal.table(*names, "all\nord.", first="completion")
    for completion in comparison.completions:
        name = terminal.tokens(completion.tokens) + (" *" if completion.is_gold else "")
        log_probs = [*completion.log_probs.values(), completion.orders_log_prob]
        table.add_row(name, *[terminal.short_percent(p) for p in log_probs])
    console.print(table)
    known = comparison.cloze.gold is not None
    some = len(comparison.support) < len(comparison.model.regular_ids)
    console.print(f"all orders: the chain rule averaged over all orders, over the {'alphabet' if some else 'whole vocabulary'}")
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
