"""`unmask fill`: the most probable completions of a text with blanks."""

from __future__ import annotations

from unmask.cli import options
from unmask.joints.registry import DEFAULT


def fill(
    text: options.Text,
    joint: options.Joint = DEFAULT,
    candidates: options.Candidates = None,
    exact: options.Exact = False,
    top: options.Top = 10,
    model: options.Model = None,
    positions: options.Positions = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Fill the blanks of a text by their joint probability, beside what independent blanks would give."""
    from unmask.cli import terminal

    text = options.read_text(text)
    with terminal.progress(quiet=json) as report:
        from unmask.answers.filling import fill as fill_blanks

        filling = fill_blanks(
            text,
            model=model,
            joint=joint,
            candidates=candidates,
            exact=exact,
            top=top,
            positions=options.read_positions(positions),
            device=device,
            dtype=dtype,
            force=force,
            progress=report,
        )
        completions = filling.completions
    if json:
        terminal.print_json(filling.to_dict())
        return
    console = terminal.console()
    terminal.print_heading(console, filling.text)
    one = filling.joint.sites == 1
    kind = "distribution of 1 blank" if one else f"{filling.joint.name} joint of {filling.joint.sites} blanks"
    console.print(
        f"{kind}; {terminal.shape(filling.joint.shape)} {terminal.mass(filling.candidates_mass, filling.joint.sites)}\n"
    )
    table = terminal.table("probability", "nats", *([] if one else ["product"]))
    table.add_column("completion", overflow="fold")
    width = max(24, console.width - (24 if one else 36))
    for completion in completions:
        numbers = [terminal.percent(completion.log_prob), f"{completion.log_prob:.2f}"]
        if not one:
            numbers.append(terminal.percent(completion.product_log_prob))
        table.add_row(*numbers, terminal.excerpt(completion.text, completion.spans, width))
    console.print(table)
