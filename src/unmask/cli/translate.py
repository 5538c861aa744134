"""`unmask translate`: a file of sources in, a translation of each out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from unmask.cli import options
from unmask.sampling.settings import EnergyKind, Order, Schedule
from unmask.translation.settings import AUTOREGRESSIVE, DECODERS, MARKOV, RANDOM, SCORES, TranslateSettings

DEFAULT = TranslateSettings()


def translate(
    texts: Annotated[
        Path, typer.Argument(metavar="FILE", parser=options.path, help="Sources, one per line; - reads standard input.")
    ],
    model: Annotated[Path, typer.Option(parser=options.path, metavar="DIR", help="A folder of `unmask train --parallel`.")],
    decoder: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(DECODERS)}; of a causal model {' or '.join(AUTOREGRESSIVE)}. By default mask-predict, or beam."
        ),
    ] = None,
    kernel: Annotated[str | None, typer.Option(help=f"Instead: a Markov kernel, {', '.join(MARKOV)}.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of the decoder, or sweeps of the kernel.")] = DEFAULT.steps,
    start: Annotated[str, typer.Option(help=f"Where a kernel starts: a decoder, or {RANDOM}.")] = DEFAULT.start,
    start_steps: Annotated[int, typer.Option(help="Steps of that decoder.")] = DEFAULT.start_steps,
    lengths: Annotated[int, typer.Option(help="How many of the likeliest lengths are decoded.")] = DEFAULT.lengths,
    choose: Annotated[str, typer.Option(help=f"By what the best of them is taken: {', '.join(SCORES)}.")] = DEFAULT.choose,
    per_token: Annotated[bool, typer.Option(help="Divide that by the number of tokens.")] = DEFAULT.per_token,
    orders: Annotated[int, typer.Option(help="Random orders that any-order log-probabilities average over.")] = DEFAULT.orders,
    beam: Annotated[int, typer.Option(help="Width of a causal model's beam.")] = DEFAULT.beam,
    penalty: Annotated[float, typer.Option(help="A beam's scores are divided by tokens to this power.")] = DEFAULT.penalty,
    energy: Annotated[str, typer.Option(help=f"Energy of kernels and of the output: {', '.join(get_args(EnergyKind))}.")] = (
        DEFAULT.energy
    ),
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = DEFAULT.seed,
    temperature: Annotated[float | None, typer.Option(help="Of a kernel's energy.")] = None,
    proposal_temperature: Annotated[float | None, typer.Option(help="Of a kernel's proposed tokens.")] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens that a step of a block kernel redraws at once.")] = None,
    hot: Annotated[float | None, typer.Option(help="First temperature of annealing.")] = None,
    cold: Annotated[float | None, typer.Option(help="Last temperature of annealing.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help=f"How many blanks a decoder's steps leave: {', '.join(get_args(Schedule))}.")
    ] = None,
    decoding_temperature: Annotated[
        float | None, typer.Option(help="Of a decoder's tokens; 0, the default, takes the likeliest.")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Nats of dependence that a step of entropy-bound may lose.")] = None,
    order: Annotated[str | None, typer.Option(help=f"In which ancestral fills blanks: {', '.join(get_args(Order))}.")] = None,
    restart: Annotated[float | None, typer.Option(help="Of refined draws: 1 is the chain rule, near 0 pseudo-Gibbs.")] = None,
    reference: Annotated[
        Path | None,
        typer.Option(parser=options.path, metavar="FILE", help="A translation of each source, to measure against."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=options.path, metavar="FILE", help="Write the JSON lines here, not to standard output."),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
) -> None:
    """Translate with a model that `unmask train --parallel` has made: JSON lines, one per source.

    Each has text, energy, log_prob (any-order; of a causal model its own), passes, stutter, tokens and length. --reference prints
    BLEU and chrF, stutter, acceptance, and passes and seconds per sentence.
    """
    given = dict(locals())
    from unmask.cli import terminal
    from unmask.translation.translate import translate as run

    with terminal.progress() as report:
        made = run(**given, progress=report)
    if out is None:
        print(made.lines(), end="")
    if made.figures is not None:
        (terminal.console() if out else terminal.messages()).print(str(made.figures), soft_wrap=True, highlight=False)
