"""`unmask sample`: texts from the energy model behind a masked language model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.errors import InputError
from unmask.joints.registry import FORMS

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.sampling.chain import Report


class KernelName(StrEnum):
    """What moves a chain, or decodes a text."""

    mh = "mh"
    gibbs = "gibbs"
    block = "block"
    sequential_block = "sequential-block"
    pair_joint = "pair-joint"
    tempering = "tempering"
    annealing = "annealing"
    ancestral = "ancestral"
    mask_predict = "mask-predict"
    confidence = "confidence"


class EnergyName(StrEnum):
    """raw: minus the sum of logits; norm: minus the sum of log-probabilities."""

    raw = "raw"
    norm = "norm"


class ScanName(StrEnum):
    """The order of the updates of a sweep."""

    random = "random"
    fixed = "fixed"
    permutation = "permutation"


class BlockShapeName(StrEnum):
    """Which positions make a block."""

    window = "window"
    scattered = "scattered"
    dependent = "dependent"
    independent = "independent"


def sample(
    out: Annotated[Path, typer.Option("--out", help="Folder of the run; the same command continues a run that was stopped.")],
    kernel: Annotated[KernelName, typer.Option("--kernel", help="What moves the chains, or a decoder.")] = KernelName.mh,
    energy: Annotated[EnergyName, typer.Option("--energy", help="Which energy the chains sample.")] = EnergyName.norm,
    length: Annotated[str, typer.Option("--length", help="Tokens a text, or several lengths such as 8,12,16.")] = "12",
    chains: Annotated[int, typer.Option("--chains", help="How many chains (or texts decoded side by side).")] = 64,
    sweeps: Annotated[int, typer.Option("--sweeps", help="How often each chain redraws all of its tokens.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random choices.")] = 0,
    burn_in: Annotated[int, typer.Option("--burn-in", help="Sweeps at the beginning that are not kept.")] = 0,
    thin: Annotated[int, typer.Option("--thin", help="Keep every so many-th sweep.")] = 1,
    init: Annotated[
        Path | None, typer.Option("--init", help="File of texts to start from, one a line; otherwise blanks filled one by one.")
    ] = None,
    random_start: Annotated[bool, typer.Option("--random-start", help="Start from tokens drawn uniformly.")] = False,
    template: Annotated[
        str | None, typer.Option("--template", help="A text with \\[MASK] where tokens are sampled; the rest is held.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow", help="Tokens allowed at a position, such as 3=red,green; \\[CLS] is position 0. May be repeated."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="Of the energy: exp(-E / temperature).")] = 1.0,
    scan: Annotated[ScanName, typer.Option("--scan", help="Order of the updates of a sweep.")] = ScanName.permutation,
    block: Annotated[int, typer.Option("--block", help="Tokens that a block kernel redraws at once.")] = 2,
    block_shape: Annotated[
        BlockShapeName,
        typer.Option(
            "--block-shape",
            help="Neighbours, any positions, or those that depend most or least on each other, as measured at the start.",
        ),
    ] = BlockShapeName.window,
    delayed: Annotated[
        str, typer.Option("--delayed", help="Delayed acceptance: decide in stages that end at these distances, such as 1,3.")
    ] = "",
    proposal_temperature: Annotated[float, typer.Option("--proposal-temperature", help="Of the proposed tokens.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Propose the likeliest tokens only; the chain is then reducible.")
    ] = None,
    nucleus: Annotated[
        float | None, typer.Option("--nucleus", help="Propose the likeliest share of tokens only; the chain is then reducible.")
    ] = None,
    ladder: Annotated[str, typer.Option("--ladder", help="Temperatures of --kernel tempering, rising.")] = "1,1.5,2.25",
    hot: Annotated[float, typer.Option("--hot", help="First temperature of --kernel annealing.")] = 2.0,
    cold: Annotated[float, typer.Option("--cold", help="Last temperature of --kernel annealing.")] = 0.1,
    joint: Annotated[
        str,
        typer.Option("--joint", help=f"Construction of --kernel pair-joint, and of dependence: {', '.join(FORMS)}."),
    ] = "pseudo_gibbs",
    candidates: Annotated[
        int, typer.Option("--candidates", help="Tokens a position of --kernel pair-joint and of measured dependence.")
    ] = 16,
    decoding_steps: Annotated[int, typer.Option("--decoding-steps", help="Steps of mask-predict and confidence.")] = 10,
    schedule: Annotated[
        str, typer.Option("--schedule", help="How many blanks are left after each step: linear or cosine.")
    ] = "linear",
    decoding_temperature: Annotated[
        float, typer.Option("--decoding-temperature", help="Of mask-predict and confidence; 0 takes the likeliest token.")
    ] = 1.0,
    order: Annotated[
        str, typer.Option("--order", help="Of --kernel ancestral: random, left-to-right, right-to-left.")
    ] = "random",
    together: Annotated[
        int | None, typer.Option("--together", help="Chains side by side; changes memory and speed, not the samples.")
    ] = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
) -> None:
    """Sample texts by Markov chains or decoders, and say how far to trust them."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, soft_wrap=True)
    texts = read_starts(init, chains) if init is not None else ()
    with _progress(screen) as report, _one_line_warnings(screen):
        from unmask.sampling.chain import sample as run_chains
        from unmask.sampling.settings import SampleSettings

        settings = SampleSettings(
            kernel=kernel.value,
            energy=energy.value,
            temperature=temperature,
            lengths=tuple(read_numbers(length, int, "--length")),
            chains=chains,
            sweeps=sweeps,
            seed=seed,
            burn_in=burn_in,
            thin=thin,
            start="texts" if init is not None else "random" if random_start else "mask",
            texts=texts,
            template=template,
            allowed=tuple(read_allowed(item) for item in allow or ()),
            scan=scan.value,
            block=block,
            block_shape=block_shape.value,
            proposal_temperature=proposal_temperature,
            top_k=top_k,
            nucleus=nucleus,
            delayed=tuple(read_numbers(delayed, int, "--delayed")) if delayed else (),
            ladder=tuple(read_numbers(ladder, float, "--ladder")),
            hot=hot,
            cold=cold,
            construction=joint,
            candidates=candidates,
            decoding_steps=decoding_steps,
            schedule=schedule,  # type: ignore[arg-type]
            decoding_temperature=decoding_temperature,
            order=order,  # type: ignore[arg-type]
        )
        try:
            run = run_chains(settings, model, out, together, report=report, device=device, dtype=dtype)
        except KeyboardInterrupt:
            screen.print(f"stopped; what was sampled is kept in {out}, and the same command goes on", markup=False)
            raise typer.Exit(130) from None
    from unmask.cli.diagnose import print_diagnostics, write_diagnostics

    print_diagnostics(write_diagnostics(run, out, screen))
    last = run.samples.drop_duplicates("chain", keep="last").head(5)
    for row in last.itertuples():
        typer.echo(f"{row.energy:8.2f}  {row.text}")
    screen.print(f"{len(run.samples):,} samples are in {out / 'samples.parquet'}", markup=False)


def read_starts(path: Path, chains: int) -> tuple[str, ...]:
    """Texts to start from, as many as there are chains at most."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"file of starts {str(path)!r} cannot be read ({error}): give a text file, one text a line") from None
    return tuple(line.strip() for line in lines if line.strip())[: max(1, chains)]


def read_numbers(text: str, kind: type[Any], option: str) -> list[Any]:
    """Numbers separated by commas."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r} is not understood: give numbers separated by commas") from None


def read_allowed(text: str) -> tuple[int, tuple[str, ...]]:
    """ "3=red,green" as (3, ("red", "green"))."""
    position, found, tokens = text.partition("=")
    if not found or not position.strip().isdigit():
        raise InputError(f"--allow {text!r} is not understood: give a position and tokens, such as 3=red,green")
    return int(position), tuple(token.strip() for token in tokens.split(",") if token.strip())


@contextmanager
def _one_line_warnings(screen: Console) -> Iterator[None]:
    """Warnings as one line each, once."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        finally:
            for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
                screen.print(f"warning: {text}", markup=False)


@contextmanager
def _progress(screen: Console) -> Iterator[Report | None]:
    """A bar where standard error is a terminal: sweeps done, in all, and the time left."""
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("loading", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description="sweeps")

        yield report
