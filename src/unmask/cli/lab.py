"""`unmask lab`: the theory of generative masked language models, computed exactly on small spaces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from unmask.lab.studies.settings import ModelSettings
    from unmask.lab.studies.study import Study, Table, Tick

app = typer.Typer(
    no_args_is_help=True,
    help="The theory of generative masked language models, computed exactly on small models.",
)

Out = Annotated[Path, typer.Option("--out", help="Folder for figure and numbers: new, empty, or an earlier lab's.")]
Sites = Annotated[int, typer.Option("--sites", "-n", help="Sites N of the model; states^N may be at most 4,096.")]
States = Annotated[int, typer.Option("--states", "-q", help="Values a site takes: 2 is Ising, more is Potts.")]
Coupling = Annotated[float, typer.Option("--coupling", "-b", help="Coupling of each pair of joined sites.")]
Couplings = Annotated[str, typer.Option("--couplings", help="Couplings to sweep: numbers with commas, or FIRST:LAST:COUNT.")]
Fields = Annotated[
    str, typer.Option("--fields", help="Fields: one number, one a site with commas, FIRST:LAST evenly, or normal:SD:SEED.")
]
Graph = Annotated[str, typer.Option("--graph", help="Which sites are joined: complete, cycle or path.")]
JointTable = Annotated[
    Path | None, typer.Option("--table", help="A joint p[x1, ..., xN] instead of spins: .npy, or nested lists in .json.")
]
Masked = Annotated[str, typer.Option("--k", "-k", help="Masked sites: all, numbers with commas, or FIRST:LAST.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]

HERE = Path("lab")


@app.command()
def dictionary(
    out: Out = HERE,
    sites: Sites = 6,
    coupling: Coupling = 0.25,
    fields: Fields = "0",
    graph: Graph = "complete",
    states: States = 2,
    table: JointTable = None,
    k: Masked = "all",
    couplings: Couplings = "0:0.5:11",
    adaptive_k: Annotated[int, typer.Option("--adaptive-k", help="Masked sites of the adaptive masks.")] = 2,
    sharpness: Annotated[float, typer.Option("--sharpness", help="How strongly adaptive masks prefer surprising tokens.")] = 1.0,
    seed: Seed = 0,
) -> None:
    """Theorem 1: samples needed and mixing time are one quantity."""
    from unmask.lab.studies import dictionary as study

    model = _model(sites, coupling, fields, graph, states, table)
    options = study.Options(model, k, couplings, adaptive_k, sharpness, seed)
    _present(out, "gaps and information", lambda tick: study.run(options, tick))


@app.command()
def masking(
    out: Out = HERE,
    sites: Sites = 6,
    coupling: Coupling = 0.25,
    fields: Fields = "-0.5:0.5",
    graph: Graph = "complete",
    states: States = 2,
    table: JointTable = None,
    slow_sites: Annotated[int, typer.Option("--slow-sites", help="Sites of the model where averaging all masks goes wrong.")] = 5,
    slow_coupling: Annotated[float, typer.Option("--slow-coupling", help="Its coupling.")] = 0.5,
    learn_sites: Annotated[int, typer.Option("--learn-sites", help="Sites of the model that is fitted to samples.")] = 5,
    learn_coupling: Annotated[float, typer.Option("--learn-coupling", help="Its coupling.")] = 0.25,
    learn_fields: Annotated[str, typer.Option("--learn-fields", help="Its fields.")] = "normal:0.2:3",
    samples: Annotated[int, typer.Option("--samples", help="Samples a fit.")] = 4000,
    fits: Annotated[int, typer.Option("--fits", help="Fits for each k and each loss.")] = 300,
    seed: Seed = 0,
) -> None:
    """Theorem 2: masking more is statistically better, and what that needs."""
    from unmask.lab.studies import masking as study
    from unmask.lab.studies.settings import ModelSettings

    options = study.Options(
        _model(sites, coupling, fields, graph, states, table),
        ModelSettings(slow_sites, slow_coupling),
        ModelSettings(learn_sites, learn_coupling, learn_fields),
        samples,
        fits,
        seed,
    )
    _present(out, "fits", lambda tick: study.run(options, tick))


@app.command()
def dependence(
    out: Out = HERE,
    sites: Sites = 6,
    fields: Fields = "0",
    graph: Graph = "complete",
    states: States = 2,
    couplings: Couplings = "0:0.6:13",
    table_couplings: Annotated[str, typer.Option("--table-couplings", help="Couplings of the table.")] = "0.1,0.3,0.6",
    k: Masked = "1,2,3",
) -> None:
    """Theorem 3: strong dependence makes generation and training slow."""
    from unmask.lab.studies import dependence as study

    options = study.Options(_model(sites, 0.0, fields, graph, states, None), couplings, table_couplings, k)
    _present(out, "couplings", lambda tick: study.run(options, tick))


@app.command()
def parallel(
    out: Out = HERE,
    sites: Sites = 5,
    coupling: Coupling = 0.4,
    fields: Fields = "-0.35:0.35",
    graph: Graph = "complete",
    states: States = 2,
    table: JointTable = None,
    k: Masked = "all",
    couplings: Couplings = "0,0.1,0.2,0.3,0.4",
) -> None:
    """Theorem 3: one parallel forward pass is not a Gibbs step."""
    from unmask.lab.studies import parallel as study

    options = study.Options(_model(sites, coupling, fields, graph, states, table), k, couplings)
    _present(out, "couplings", lambda tick: study.run(options, tick))


@app.command()
def stutter(
    out: Out = HERE,
    weight: Annotated[float, typer.Option("--weight", help="Probability of the first of the two sentences.")] = 0.5,
    slots: Annotated[int, typer.Option("--slots", help="Largest number of slots for the word.")] = 8,
    repair_slots: Annotated[int, typer.Option("--repair-slots", help="Slots of the refinement.")] = 4,
    noise: Annotated[float, typer.Option("--noise", help="Share of the uniform law mixed in for the refinement.")] = 0.001,
    steps: Annotated[int, typer.Option("--steps", help="Steps of the refinement.")] = 24,
) -> None:
    """Why a parallel draw says a word twice."""
    from unmask.lab.studies import stutter as study

    options = study.Options(weight, slots, repair_slots, noise, steps)
    _present(out, "slots", lambda tick: study.run(options, tick))


@app.command()
def schedule(
    out: Out = HERE,
    sites: Sites = 8,
    coupling: Coupling = 0.6,
    fields: Fields = "0.2",
    graph: Graph = "path",
    states: States = 2,
    table: JointTable = None,
    orders: Annotated[int, typer.Option("--orders", help="Random orders to average.")] = 200,
    seed: Seed = 0,
) -> None:
    """What unmasking in few parallel steps costs, and which order costs least."""
    from unmask.lab.studies import schedule as study

    options = study.Options(_model(sites, coupling, fields, graph, states, table), orders, seed)
    _present(out, "steps", lambda tick: study.run(options, tick))


@app.command(name="all")
def all_studies(
    out: Out = Path("lab-report"),
    fits: Annotated[int, typer.Option("--fits", help="Fits for each k and each loss in the Monte Carlo.")] = 300,
    seed: Seed = 0,
) -> None:
    """Every study with its defaults, and a report over them."""
    from dataclasses import replace

    from rich.console import Console

    from unmask.lab.report import prepare, save, write_report
    from unmask.lab.studies import dependence, dictionary, masking, parallel, schedule, stutter

    prepare(out)
    runs: list[tuple[str, Callable[[Tick], Study]]] = [
        ("dictionary", lambda tick: dictionary.run(replace(dictionary.Options(), seed=seed), tick)),
        ("masking", lambda tick: masking.run(replace(masking.Options(), fits=fits, seed=seed), tick)),
        ("dependence", lambda tick: dependence.run(dependence.Options(), tick)),
        ("parallel", lambda tick: parallel.run(parallel.Options(), tick)),
        ("stutter", lambda tick: stutter.run(stutter.Options(), tick)),
        ("schedule", lambda tick: schedule.run(replace(schedule.Options(), seed=seed), tick)),
    ]
    studies = []
    for name, work in runs:
        studies.append(_watched(name, work))
        save(studies[-1], out)
    given = "".join(f" --{name} {value}" for name, value, usual in (("fits", fits, 300), ("seed", seed, 0)) if value != usual)
    report = write_report(studies, out, f"unmask lab all{given}")
    console = Console()
    for study in studies:
        console.print(f"[bold]{study.title}[/bold]")
        for finding in study.findings:
            console.print("  - " + _plain(finding), highlight=False)
    console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _model(sites: int, coupling: float, fields: str, graph: str, states: int, table: Path | None) -> ModelSettings:
    from unmask.lab.studies.settings import ModelSettings

    return ModelSettings(sites, coupling, fields, graph, states, table)


def _watched(label: str, work: Callable[[Tick], Study]) -> Study:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        return work(lambda done, total: bar.update(task, completed=done, total=total))


def _present(out: Path, label: str, work: Callable[[Tick], Study]) -> None:
    from rich.console import Console

    from unmask.lab.report import prepare, save

    prepare(out)
    study = _watched(label, work)
    files = save(study, out)
    console = Console()
    console.print(f"[bold]{study.title}[/bold]")
    for table in study.tables:
        console.print(_rich(table))
    for finding in study.findings:
        console.print("- " + _plain(finding), highlight=False)
    for path in files:
        console.print(f"{path.suffix[1:]}: {path}", highlight=False, soft_wrap=True)


def _rich(table: Table) -> object:
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(title=escape(table.title), caption=escape(table.note) or None, box=box.SIMPLE_HEAD, title_justify="left")
    shown.caption_justify = "left"
    for index, column in enumerate(table.columns):
        numeric = all(isinstance(row[index], (int, float)) for row in table.rows)
        shown.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.cells():
        shown.add_row(*(escape(cell) for cell in row))
    return shown


def _plain(finding: str) -> str:
    from rich.markup import escape

    return escape(finding.replace("**", "").replace("*", ""))
