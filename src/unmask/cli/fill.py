"""`unmask fill`: the most probable completions of a text with blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.answering import answer

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.answers.chain_answer import ChainFilling
    from unmask.answers.filling import Filling


def fill(
    text: options.Text = None,
    file: options.File = None,
    joint: options.JointOrDefault = None,
    candidates: options.Candidates = None,
    exact: options.Exact = False,
    top: options.Top = 10,
    model: options.Model = None,
    positions: options.Positions = None,
    targets: options.Targets = None,
    answers: options.Answers = None,
    pieces: options.Pieces = 3,
    lengths: options.Lengths = "uniform",
    allow: options.Allow = None,
    forbid: options.Forbid = None,
    match: options.Match = None,
    differ: options.Differ = False,
    passes: options.Passes = None,
    mass: options.Mass = None,
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
        locals(),
        positions=options.read_positions,
        targets=options.read_words,
        answers=options.read_words,
        allow=options.read_allowed,
        forbid=options.read_words,
        match=options.read_matches,
    )


def _show(filling: Filling | ChainFilling, console: Console) -> None:
    from unmask.answers.chain_answer import ChainFilling
    from unmask.cli import terminal

    terminal.print_heading(console, filling.text)
    if isinstance(filling, ChainFilling):
        _show_chain(filling, console)
    else:
        _show_joint(filling, console)
    if any(completion.is_gold for completion in filling.completions):
        console.print("* the tokens given")


def _show_joint(filling: Filling, console: Console) -> None:
    from unmask.answers.asking import told_mass
    from unmask.cli import terminal

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


def _show_chain(filling: ChainFilling, console: Console) -> None:
    from unmask.cli import terminal
    from unmask.formats import count_at_most

    console.print(filling.summary + "\n")
    error = not filling.exact
    table = terminal.table("probability", "nats", *(["error"] if error else []))
    table.add_column("completion", overflow="fold")
    for completion in filling.completions:
        numbers = [terminal.percent(completion.log_prob), f"{completion.log_prob:.2f}"]
        if error:
            numbers.append(f"{completion.standard_error:.2f}")
        shown = terminal.marked(completion.text, completion.spans, max(24, console.width - 30 - 2 * completion.is_gold))
        table.add_row(*numbers, shown.append(" *" if completion.is_gold else ""))
    console.print(table)
    if filling.answers:
        table = terminal.table("probability", "nats", "rank", "odds")
        table.add_column("answer", overflow="fold")
        for answer in filling.answers:
            rank = "-" if answer.rank is None else " to ".join(map(count_at_most, sorted(set(answer.rank))))
            odds = f"1 : {1 / answer.odds:.3g}" if answer.odds else "0"
            numbers = [terminal.percent(answer.log_prob), f"{answer.log_prob:.2f}", rank, odds]
            table.add_row(*numbers, answer.answer)
        console.print()
        console.print(table)
