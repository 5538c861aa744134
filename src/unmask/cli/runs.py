"""Commands of runs and studies: `evaluate`, `frontier`, `sample`, `diagnose`, `serve` and `lab ...`."""

from __future__ import annotations

from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unmask.cli import process, terminal
from unmask.cli.build import command
from unmask.cli.group import Group
from unmask.errors import InputError
from unmask.joints.registry import named
from unmask.options import VERBS
from unmask.runs.lines import refuse_file_name

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from unmask.evaluation.frontier import Frontier
    from unmask.evaluation.table import Evaluation
    from unmask.lab.studies.study import Study, Table
    from unmask.sampling.run.diagnostics import Diagnosis
    from unmask.sampling.run.result import SampleRun

SHOWN = 5
"""Texts that are printed at the end of a run of `sample`."""
STUDY, REPORT = "lab", "lab-report"
"""Folders of a study and of all of them."""
ALL_STUDIES = "Every study with its defaults, and a report over them."


def evaluate(given: dict[str, Any]) -> None:
    """Print the table, and what was left out."""
    out, screen = given["out"], terminal.messages()
    found = terminal.answered("evaluate", given, partial(_print_evaluation, out=out))
    _print_skipped(found)
    if found.failed:
        screen.print(
            f"{len(found.failed)} of {found.pairs} pairs failed, the first with {found.failed[0]['reason']}: "
            f"see {out / 'failures.jsonl'}; the same command tries them again",
            style="red",
        )
        raise typer.Exit(1)


def _print_evaluation(found: Evaluation, out: Path) -> None:
    from unmask.evaluation.table import HEADINGS, cell, written

    pairs = found.summary["pairs"]
    if not pairs:
        return
    rows = []
    for row in found.summary["constructions"]:
        numbers = [written(row[m]["value"], m) for m in HEADINGS]
        difference = cell(row["difference"], "difference") if "difference" in row else ""
        rows.append([named(row["construction"]).label, *numbers, difference])
    heads = [*HEADINGS.values(), "P-NLL per token\nminus product"]
    terminal.print_table(terminal.console(), heads, rows, first=f"{pairs:,} pairs")
    terminal.messages().print(f"\nintervals, rows and figures are in {out}")


def frontier(given: dict[str, Any]) -> None:
    """Print the table."""
    _print_skipped(terminal.answered("frontier", given, partial(_print_frontier, given["out"])))


def _print_skipped(found: Evaluation | Frontier) -> None:
    for reason, count in found.skipped.items():
        terminal.messages().print(f"{count} {'text' if count == 1 else 'texts'} skipped: {reason}")


def _print_frontier(out: Any, found: Frontier) -> None:
    from unmask.evaluation.frontier import cells

    console = terminal.console(at_least=terminal.USUAL)
    console.print(found.title(), soft_wrap=True)
    rows = ([point["decoder"], *cells(point)] for point in found.points)
    terminal.print_table(console, ["passes", "nats per token", f"minus {found.best}"], rows, first="decoder")
    terminal.messages().print(f"\nrows, table and figure are in {out}")


def serve(given: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    import unmask

    try:
        unmask.serve(**given)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process


def sample(given: dict[str, Any]) -> None:
    """Draw samples and print their diagnosis."""
    if (text := given.pop("text", None)) is not None:
        if given.get("template") is not None:
            raise InputError(f"template {given['template']!r} and {text!r} were both given: give one text")
        refuse_file_name(text, f"give --init {text} to start from its texts")
        given["template"] = text
    from unmask.sampling.settings import grouped

    given.setdefault("kernel", "mh")
    terminal.answered("sample", {"json": given.pop("json", False), **grouped(given)}, _print_run)


def diagnose(given: dict[str, Any]) -> None:
    """Print the diagnosis of a run."""
    import unmask

    json = given.pop("json", False)
    found = unmask.diagnose(**given)
    if json:
        terminal.print_json(found.to_dict())
    else:
        _print_diagnosis(found)
        terminal.messages().print(f"figures are in {given['run'] / 'figures'}")


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


def _print_diagnosis(found: Diagnosis) -> None:
    """Tables and the verdict."""
    console = terminal.console()
    rates = [f"{found.chains} chains of {found.draws} draws, {found.passes:,} passes"]
    if not isnan(found.acceptance):
        rates.append(f"{_number(found.passes_per_step)} per step; accepted {found.acceptance:.1%}, changed {found.novelty:.1%}")
    if found.scoring_passes:
        rates.append(f"{found.scoring_passes:,} more to score and compare the samples")
    console.print("; ".join(rates))
    for line in position_lines(found):
        console.print(line)
    if found.swaps:
        console.print(f"swaps accepted along the ladder: {', '.join(f'{share:.0%}' for share in found.swaps)}")
    if found.functionals:
        heads, rows = ["mean", "sd", "R-hat", "ESS bulk", "ESS tail", "ESS per\n1000 passes"], []
        for f in found.functionals:
            numbers = (f.mean, f.sd, f.r_hat, f.ess_bulk, f.ess_tail, f.ess_per_1000_passes)
            shown = [_number(x, 3 if i == 2 else 2 if i in (0, 1, 5) else 0) for i, x in enumerate(numbers)]
            rows.append([f"{f.length}, {f.name}", *shown])
        terminal.print_table(console, heads, rows, first="tokens, functional")
    several = ", ".join(f"distinct-{n} {_number(value)}" for n, value in found.distinct.items())
    console.print(f"self-BLEU {_number(found.self_bleu)}, {several}, unique texts {found.unique:.1%}")
    console.print(f"equal neighbours {_percent(found.stutter)}, samples among the starts {_percent(found.in_starts)}")
    if found.judge is not None:
        scores = [f"{_nats(found.judge['samples'])} nats per token for the {'texts' if not found.functionals else 'last texts'}"]
        if found.judge["starts"] is not None:
            scores.append(f"{_nats(found.judge['starts'])} for their starts")
        console.print(f"judge {found.judge['name']}: {', '.join(scores)} (lower is better)")
    for sentence in found.verdict:
        console.print(f"- {sentence}")


def position_lines(found: Diagnosis) -> list[str]:
    """Acceptance and novelty along the positions, in per cent; two lines for each length."""
    lines = []
    for length in dict.fromkeys(p.length for p in found.positions):
        here = [p for p in found.positions if p.length == length]
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


def lab() -> Group:
    """All commands `unmask lab ...`."""
    from unmask.options.lab import STUDIES, AllOptions, with_output

    made = {
        name: command(name, kind.__doc__ or "", with_output(kind, STUDY), partial(_study, name)) for name, kind in STUDIES.items()
    }
    made["all"] = command("all", ALL_STUDIES, with_output(AllOptions, REPORT), _all_studies)
    return Group(name="lab", help=VERBS["lab"], commands=made, no_args_is_help=True)


def _study(name: str, given: dict[str, Any]) -> None:
    out = given.setdefault("out", Path(STUDY))
    terminal.answered("lab.study", given, partial(_print_study, out=out), name)


def _all_studies(given: dict[str, Any]) -> None:
    out = given.setdefault("out", Path(REPORT))

    def show(made: Any) -> None:
        for study in made.studies:
            _print_study(study, mark="  - ")
        terminal.console().print(f"report: {out / 'report.md'}", soft_wrap=True)

    terminal.answered("lab.all_studies", given, show)


def _print_study(study: Study, out: Path | None = None, mark: str = "- ") -> None:
    """A study; without a folder of its own, its findings only."""
    from unmask.lab.studies.study import without_markdown

    screen = terminal.console()
    terminal.print_heading(screen, study.title)
    for table in study.tables if out else ():
        screen.print(_shown(table))
    for finding in study.findings:
        screen.print(mark + without_markdown(finding))
    for ending in ("png", "json") if out else ():
        screen.print(f"{ending}: {Path(out or '') / f'{study.name}.{ending}'}", soft_wrap=True)


def _shown(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    note = Text(table.note) if table.note else None
    shown = RichTable(title=Text(table.title), caption=note, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for index, column in enumerate(table.columns):
        numeric = all(isinstance(row[index], (int, float)) for row in table.rows)
        shown.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.cells():
        shown.add_row(*(Text(cell) for cell in row))
    return shown
