"""`unmask sample`: texts from the energy model behind a masked language model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from unmask.cli import options
from unmask.joints.registry import FORMS
from unmask.sampling.registry import KERNELS, used_by
from unmask.sampling.settings import BlockShape, EnergyKind, SampleSettings, Scan, Schedule
from unmask.sampling.settings import Order as OrderName

if TYPE_CHECKING:
    from unmask.sampling.run import SampleRun

SHOWN = 5
"""Texts that are printed when the run is done."""


def option(name: str, text: str, **more: Any) -> Any:
    """An option that some kernels use: its help tells which, and the default that it has where it is left out."""
    users, default = used_by(name), getattr(SampleSettings, name, None)
    others = [kernel for kernel in KERNELS if kernel not in users]
    only = f" [all but {', '.join(others)}]" if len(others) < 4 else f" [{', '.join(users)}]"
    shown = ",".join(f"{x:g}" for x in default) if isinstance(default, tuple) else default
    standard = "" if shown in (None, "", False) else f" [default: {shown}]"
    flag = f"--{name.replace('_', '-')}"
    return typer.Option(flag, help=f"{text}{only if others else ''}{standard}".replace("[", "\\["), show_default=False, **more)


def choices(kind: Any) -> str:
    """The values of a Literal in one line."""
    return ", ".join(get_args(kind))


def sample(
    template: Annotated[
        str | None, option("template", "A text with [MASK] where tokens are sampled; the rest is held. Instead of --length.")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", help=f"What moves the chains, or a decoder: {', '.join(KERNELS)}.")
    ] = SampleSettings.kernel,
    energy: Annotated[
        str, typer.Option("--energy", help=f"Which energy the chains sample: {choices(EnergyKind)}.")
    ] = SampleSettings.energy,
    length: Annotated[str | None, option("length", "Tokens per text, or several lengths such as 8,12,16.")] = None,
    chains: Annotated[int, typer.Option("--chains", help="How many chains (or texts decoded side by side).")] = 64,
    sweeps: Annotated[int, typer.Option("--sweeps", help="How often each chain redraws all of its tokens.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random choices.")] = 0,
    burn_in: Annotated[int, typer.Option("--burn-in", help="Sweeps at the beginning that are not kept.")] = 0,
    thin: Annotated[int, typer.Option("--thin", help="Keep every n-th sweep.")] = 1,
    init: Annotated[
        Path | None,
        option("init", "File of texts to start from, one per line; otherwise blanks are filled one by one.", parser=options.path),
    ] = None,
    random_start: Annotated[bool, option("random_start", "Start from tokens drawn uniformly.")] = False,
    allow: Annotated[
        list[str] | None,
        option("allow", "Tokens allowed at a position, such as 3=red,green; [CLS] is position 0. May be repeated."),
    ] = None,
    alphabet: Annotated[
        str | None,
        option("alphabet", "Tokens allowed at every site: letters (ACDE), words with commas, or a file of them."),
    ] = None,
    temperature: Annotated[float | None, option("temperature", "Of the energy: exp(-E / temperature).")] = None,
    scan: Annotated[str | None, option("scan", f"Order of the updates of a sweep: {choices(Scan)}.")] = None,
    block_size: Annotated[int | None, option("block_size", "Tokens that a step redraws at once.")] = None,
    block_shape: Annotated[
        str | None,
        option(
            "block_shape",
            f"{choices(BlockShape)}: neighbours, any positions, or those that depend most or least on each other, as measured "
            "at the start.",
        ),
    ] = None,
    delayed: Annotated[
        str | None, option("delayed", "Delayed acceptance: decide in stages that end at these distances, such as 1,3.")
    ] = None,
    proposal_temperature: Annotated[float | None, option("proposal_temperature", "Of the proposed tokens.")] = None,
    top_k: Annotated[int | None, option("top_k", "Propose the likeliest tokens only; the chain is then reducible.")] = None,
    nucleus: Annotated[
        float | None, option("nucleus", "Propose the likeliest share of tokens only; the chain is then reducible.")
    ] = None,
    ladder: Annotated[str | None, option("ladder", "Temperatures, rising; the first is sampled.")] = None,
    hot: Annotated[float | None, option("hot", "First temperature.")] = None,
    cold: Annotated[float | None, option("cold", "Last temperature.")] = None,
    joint: Annotated[
        str | None,
        option("joint", f"Construction of pairs, and of measured dependence: {', '.join(FORMS)}."),
    ] = None,
    candidates: Annotated[int | None, option("candidates", "Tokens per position of pairs, and of measured dependence.")] = None,
    decoding_steps: Annotated[int | None, option("decoding_steps", "Steps to a whole text.")] = None,
    schedule: Annotated[str | None, option("schedule", f"How many blanks are left after each step: {choices(Schedule)}.")] = None,
    decoding_temperature: Annotated[
        float | None, option("decoding_temperature", "Of the predicted tokens; 0 takes the likeliest.")
    ] = None,
    gamma: Annotated[
        float | None, option("gamma", "Nats of dependence that one step may lose: more is fewer steps; 0 fills one by one.")
    ] = None,
    order: Annotated[str | None, option("order", f"In which blanks are filled: {choices(OrderName)}.")] = None,
    restart: Annotated[
        float | None, option("restart", "Of refined draws: the probability of stopping before each Gibbs step.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=options.path,
            metavar="PATH",
            help="Keep the run in this folder; the same command continues a run that was stopped.",
        ),
    ] = None,
    chains_at_once: Annotated[
        int | None, typer.Option("--chains-at-once", help="Chains side by side; changes memory and speed, not the samples.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="For what the chains keep, such as 2GB or 0.5; the rest is computed again."
        ),
    ] = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
    json: options.Json = False,
) -> None:
    """Sample texts by Markov chains or decoders, and say how far to trust them."""
    given = options.arguments(
        locals(),
        length=partial(options.read_numbers, "length", int),
        delayed=partial(options.read_numbers, "delayed", int),
        ladder=partial(options.read_numbers, "ladder", float),
        allow=lambda allowed: allowed or None,
    )
    from unmask.cli import process, terminal

    with terminal.progress(quiet=json) as report:
        from unmask.sampling.sample import sample as draw

        try:
            run = draw(**given, progress=report)
        except KeyboardInterrupt:
            kept = f"what was sampled is kept in {out}, and the same command goes on" if out else "nothing is kept without --out"
            process.tell(f"stopped; {kept}")
            raise
    if json:
        terminal.print_json(run.to_dict())
    else:
        _print(run)


def _print(run: SampleRun) -> None:
    from unmask.cli import terminal
    from unmask.cli.diagnose import print_diagnosis

    print_diagnosis(run.diagnosis)
    console, screen = terminal.console(), terminal.messages()
    screen.print(f"{run.memory}; {run.remembered:,} passes came from memory")
    for row in run.last.head(SHOWN).itertuples():
        console.print(f"{row.energy:8.2f}  {row.text}", soft_wrap=True)
    if run.folder is None:
        screen.print(f"{len(run.samples):,} samples were drawn and none is kept: give --out FOLDER to keep them")
    else:
        screen.print(f"{len(run.samples):,} samples are in {run.folder / 'samples.parquet'}, figures in {run.folder / 'figures'}")
