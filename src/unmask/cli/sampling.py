"""`unmask sample` and `unmask diagnose`: a run, its texts, and how far to trust them."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import terminal
from unmask.runs.lines import refuse_file_name

if TYPE_CHECKING:
    from unmask.sampling.run.diagnostics import Diagnosis
    from unmask.sampling.run.result import SampleRun

SHOWN = 5
"""Texts that are printed at the end of a run."""


def sample(given: dict[str, Any]) -> None:
    """Draw samples and print their diagnosis."""
    if (template := given.get("template")) is not None:
        refuse_file_name(template, f"give --init {template} to start from its texts")
    terminal.answered("sample", given, _print_run)


def diagnose(given: dict[str, Any]) -> None:
    """Print the diagnosis of a run."""
    import unmask

    json = given.pop("json", False)
    diagnosis = unmask.diagnose(**given)
    if json:
        terminal.print_json(diagnosis.to_dict())
    else:
        _print_diagnosis(diagnosis)
        terminal.messages().print(f"figures are in {Path(given['run']) / 'figures'}")


def _print_run(run: SampleRun) -> None:
    _print_diagnosis(run.diagnosis)
    console, screen = terminal.console(), terminal.messages()
    screen.print(f"{run.memory}; {run.remembered:,} passes came from memory")
    for row in run.last.head(SHOWN).itertuples():
        console.print(f"{row.energy:8.2f}  {row.text}", soft_wrap=True)
    if run.folder is None:
        screen.print(f"{len(run.samples):,} samples were drawn and none is kept: give --out FOLDER to keep them")
    else:
        screen.print(f"{len(run.samples):,} samples are in {run.folder / 'samples.parquet'}, figures in {run.folder / 'figures'}")


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    """Tables and the verdict."""
    console = terminal.console()
    rates = [f"{diagnosis.chains} chains of {diagnosis.draws} draws, {diagnosis.passes:,} passes"]
    if not isnan(diagnosis.acceptance):
        rates.append(
            f"{_number(diagnosis.passes_per_step)} per step; accepted {diagnosis.acceptance:.1%}, changed {diagnosis.novelty:.1%}"
        )
    if diagnosis.scoring_passes:
        rates.append(f"{diagnosis.scoring_passes:,} more to score the samples")
    console.print("; ".join(rates))
    for line in position_lines(diagnosis):
        console.print(line)
    if diagnosis.functionals:
        heads, rows = ["mean", "sd", "R-hat", "ESS bulk", "ESS tail", "ESS per\n1000 passes"], []
        for f in diagnosis.functionals:
            numbers = (f.mean, f.sd, f.r_hat, f.ess_bulk, f.ess_tail, f.ess_per_1000_passes)
            shown = [_number(x, 3 if i == 2 else 2 if i in (0, 1, 5) else 0) for i, x in enumerate(numbers)]
            rows.append([f"{f.length}, {f.name}", *shown])
        terminal.print_table(console, heads, rows, first="tokens, functional")
    console.print(f"unique texts {diagnosis.unique:.1%}, equal neighbours {_percent(diagnosis.stutter)}")
    if diagnosis.judge is not None:
        scores = [
            f"{_nats(diagnosis.judge['samples'])} nats per token for the {'texts' if not diagnosis.functionals else 'last texts'}"
        ]
        if diagnosis.judge["starts"] is not None:
            scores.append(f"{_nats(diagnosis.judge['starts'])} for their starts")
        console.print(f"judge {diagnosis.judge['name']}: {', '.join(scores)} (lower is better)")
    for sentence in diagnosis.verdict:
        console.print(f"- {sentence}")


def position_lines(diagnosis: Diagnosis) -> list[str]:
    """Acceptance and novelty along the positions, in per cent; two lines for each length."""
    lines = []
    for length in dict.fromkeys(p.length for p in diagnosis.positions):
        here = [p for p in diagnosis.positions if p.length == length]
        first, last = here[0].position, here[-1].position
        named = f"{first} to {last}" if len(here) == last - first + 1 else ", ".join(str(p.position) for p in here)
        where = f"at positions {named}, %:"
        lines.append(f"accepted {where} " + " ".join(f"{100 * p.accepted:3.0f}" for p in here))
        lines.append(f"changed  {where} " + " ".join(f"{100 * p.changed:3.0f}" for p in here))
    return lines


def _number(value: float, digits: int = 2) -> str:
    return "-" if isnan(value) else f"{value:,.{digits}f}"


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float) -> str:
    return "-" if isnan(value) else f"{value:.1%}"
