"""Options of `translate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, get_args

from unmask.checks import one_of
from unmask.options.kinds import Choice, File, Text, TextFile, Whole
from unmask.options.option import Options, Reads, grouped, like, model_row, option, output_row
from unmask.options.sampling import EnergyKind, Sampling
from unmask.options.shared import LARGEST_SEED, ON_RAY, SharedWork
from unmask.sampling.registry import KERNELS

AUTOREGRESSIVE = ("greedy", "beam")
USUAL_STEPS = 10
DECODERS = tuple(name for name, entry in KERNELS.items() if entry.decodes)
MARKOV = tuple(name for name, entry in KERNELS.items() if not entry.decodes)
RANDOM = "random"
"""A start: tokens drawn uniformly. The decoder of this name is not a start."""
USUAL = "mask-predict"
"""The decoder where none is named."""
STARTS = (*(name for name in DECODERS if name != RANDOM), RANDOM)
lengths_row, start_row, causal_row = map(grouped, ("Lengths", "Start of a kernel", "Causal models"))
of_sampling = partial(like, Sampling, group="Of single kernels and decoders")


def in_steps(decoder: str) -> bool:
    """Whether a decoder takes a number of steps."""
    return "decoding_steps" in KERNELS[decoder].options


def _read(name: str) -> tuple[str, ...]:
    """The options that a kernel or decoder reads."""
    started = ("start", "start_steps") if name in MARKOV else ()
    steps = ("steps",) if name in MARKOV or in_steps(name) else ()
    return ("lengths", "choose", "energy", *started, *steps, *KERNELS[name].options)


METHODS = {f"decoder {name}": _read(name) for name in DECODERS} | {f"kernel {name}": _read(name) for name in MARKOV}
METHODS |= {"decoder greedy": (), "decoder beam": ("beam",)}


@dataclass(frozen=True)
class Translating(Options):
    """Everything that decides which translations come out; see `unmask.translation.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("", METHODS),)

    decoder: str | None = option(
        None,
        Choice((*DECODERS, *AUTOREGRESSIVE)),
        f"{', '.join(DECODERS)}; of a causal model {' or '.join(AUTOREGRESSIVE)}.",
        otherwise=f"{USUAL}, of a causal model beam",
    )
    kernel: str | None = option(None, Choice(MARKOV), "Instead: a Markov kernel, which moves what --start begins with")
    steps: int | None = option(
        None,
        Whole(1, 10**6),
        "Steps of the decoder, or sweeps of the kernel.",
        otherwise=f"{USUAL_STEPS}, or as many as a decoder's bound needs",
    )
    start: str = start_row(USUAL, Choice(STARTS), f"A decoder, or {RANDOM}: tokens drawn uniformly.")
    start_steps: int = start_row(USUAL_STEPS, Whole(1, 10**6), "Steps of that decoder.")
    lengths: int = lengths_row(5, Whole(1, 10**4), "How many of the likeliest lengths are decoded.")
    choose: str = lengths_row("raw", Choice(("norm", "raw", "any-order")), "By what the best of them is taken")
    beam: int = causal_row(5, Whole(1, 10**3), "Width of a causal model's beam.")
    energy: str = option("norm", Choice(get_args(EnergyKind)), "Energy of kernels and of the output")
    seed: int = option(0, Whole(0, LARGEST_SEED - 1), "Seed of all random choices.")
    temperature: float | None = of_sampling("temperature")
    proposal_temperature: float | None = of_sampling("proposal_temperature")
    block_size: int | None = of_sampling("block_size")
    hot: float | None = of_sampling("hot")
    cold: float | None = of_sampling("cold")
    schedule: str | None = of_sampling("schedule")
    decoding_temperature: float | None = of_sampling("decoding_temperature", otherwise="0")
    gamma: float | None = of_sampling("gamma")
    tau: float | None = of_sampling("tau")
    order: str | None = of_sampling("order")
    restart: float | None = of_sampling("restart")

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The decoder or the kernel; or the one engine."""
        if what:
            return super().chosen(what, given)
        if given.get("kernel") is not None:
            return (f"kernel {one_of('kernel', given['kernel'], MARKOV)}",)
        return (f"decoder {one_of('decoder', given.get('decoder') or USUAL, (*DECODERS, *AUTOREGRESSIVE))}",)


@dataclass(frozen=True)
class LoadedPairs(Options):
    """Where a translator is, and how it runs."""

    model: Any = model_row(
        None,
        File(),
        "A folder of `unmask train --parallel`.",
        required="both",
        python="Or one that was loaded (`PairModel.load`).",
    )
    device: str = model_row("auto", Text(), "auto, cpu, cuda or cuda:N.")
    dtype: str = model_row("auto", Text(), "auto, float32, bfloat16, float16 or float64.")


@dataclass(frozen=True)
class TranslateOptions(SharedWork, LoadedPairs, Translating):
    """Options of `translate`."""

    reads = (*Translating.reads, ON_RAY)
    more = (
        "Each has text, energy, log_prob (any-order; of a causal model its own), passes, stutter, tokens and length. --reference "
        "prints BLEU and chrF, stutter, acceptance, and passes and seconds per sentence."
    )
    examples = (
        "unmask translate sources.txt --model translator",
        "unmask translate sources.txt --model translator --kernel mh --steps 20 --reference targets.txt --out translations.jsonl",
    )
    texts: Any = option(
        None, TextFile(), "Sources, one per line; - reads standard input.", required="both", argument=True, metavar="FILE"
    )
    reference: Any = output_row(None, TextFile(), "A translation of each source, to measure against.")
    out: Any = output_row(None, File(), "Write the JSON lines here, not to standard output.")
