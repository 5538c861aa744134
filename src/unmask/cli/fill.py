"""`unmask fill`: the most probable completions of a text with blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.answering import answer

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.filling import Filling


def fill(
    text: options.Text = None,
    file: options.File = None,
    joint: options.Joint = "balanced",
    candidates: options.Candidates = None,
    exact: options.Exact = False,
    top: options.Top = 10,
    model: options.Model = None,
    positions: options.Positions = None,
    targets: options.Targets = None,
    alphabet: options.Alphabet = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Fill the blanks of a text by their joint probability, beside what independent blanks would give."""
    answer(
        "fill",
        _show,
        text,
        file,
        json,
        model=model,
        joint=joint,
        candidates=candidates,
        exact=exact,
        top=top,
        positions=options.read_positions(positions),
        targets=options.read_words(targets),
        alphabet=alphabet,
        device=device,
        dtype=dtype,
        rename=options.read_renames(rename),
        force=force,
    )


def _show(filling: Filling, console: Console) -> None:
    from unmask.answers.asking import told_mass
    from unmask.cli import terminal

    terminal.print_heading(console, filling.text)
    sites = filling.joint.sites
    kind = "distribution of 1 blank" if sites == 1 else f"{filling.joint.name} joint of {sites} blanks"
    console.print(f"{kind}; {terminal.shape(filling.joint.shape)} {told_mass(filling.candidates_mass, sites)}\n")
    table = terminal.table("probability", "nats", *([] if sites == 1 else ["product"]))
    table.add_column("completion", overflow="fold")
    width = max(24, console.width - (24 if sites == 1 else 36))
    for completion in filling.completions:
        numbers = [terminal.percent(completion.log_prob), f"{completion.log_prob:.2f}"]
        if sites > 1:
            numbers.append(terminal.percent(completion.product_log_prob))
        shown = terminal.marked(completion.text, completion.spans, width - 2 * completion.is_gold)
        table.add_row(*numbers, shown.append(" *" if completion.is_gold else ""))
    console.print(table)
    if filling.cloze.gold is not None:
        console.print("* the tokens given")
