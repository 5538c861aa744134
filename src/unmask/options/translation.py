"""Options of `translate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from unmask.checks import one_of
from unmask.options.kinds import Choice, File, Flag, Real, Text, Whole
from unmask.options.option import MODEL, OUTPUT, Options, Reads, like, option
from unmask.options.sampling import HOTTEST, EnergyKind, Sampling
from unmask.options.shared import LARGEST_SEED
from unmask.sampling.registry import KERNELS

AUTOREGRESSIVE = ("greedy", "beam")
DECODERS = tuple(name for name, entry in KERNELS.items() if entry.decodes)
MARKOV = tuple(name for name, entry in KERNELS.items() if not entry.decodes)
SCORES = ("norm", "raw", "any-order")
RANDOM = "random"
LENGTHS, START, OF_KERNELS, CAUSAL = "Lengths", "Start of a kernel", "Of single kernels and decoders", "Causal models"


def in_steps(decoder: str) -> bool:
    """Whether a decoder takes a number of steps."""
    return decoder != RANDOM and "decoding_steps" in KERNELS[decoder].options


def _read(name: str) -> tuple[str, ...]:
    """The options that a kernel or decoder reads."""
    started = ("start", "start_steps") if name in MARKOV else ()
    steps = ("steps",) if name in MARKOV or in_steps(name) else ()
    return ("lengths", "choose", "per_token", "orders", "energy", *started, *steps, *KERNELS[name].options)


@dataclass(frozen=True)
class Translating(Options):
    """Everything that decides which translations come out; see `unmask.translation.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (
        Reads(
            "",
            {f"decoder {name}": _read(name) for name in DECODERS}
            | {f"kernel {name}": _read(name) for name in MARKOV}
            | {"decoder greedy": (), "decoder beam": ("beam", "penalty")},
        ),
    )

    decoder: str | None = option(
        None,
        Choice((*DECODERS, *AUTOREGRESSIVE)),
        f"{', '.join(DECODERS)}; of a causal model {' or '.join(AUTOREGRESSIVE)}.",
        otherwise="mask-predict, of a causal model beam",
    )
    kernel: str | None = option(None, Choice(MARKOV), "Instead: a Markov kernel, which moves what --start begins with")
    steps: int = option(10, Whole(1, 10**6), "Steps of the decoder, or sweeps of the kernel.")
    start: str = option("mask-predict", Choice((*DECODERS, RANDOM)), f"A decoder, or {RANDOM}.", group=START)
    start_steps: int = option(10, Whole(1, 10**6), "Steps of that decoder.", group=START)
    lengths: int = option(5, Whole(1, 10**4), "How many of the likeliest lengths are decoded.", group=LENGTHS)
    choose: str = option("raw", Choice(SCORES), "By what the best of them is taken", group=LENGTHS)
    per_token: bool = option(True, Flag(), "Divide that by the number of tokens.", group=LENGTHS)
    orders: int = option(1, Whole(1, 10**4), "Random orders that any-order log-probabilities average over.", group=LENGTHS)
    beam: int = option(5, Whole(1, 10**3), "Width of a causal model's beam.", group=CAUSAL)
    penalty: float = option(1.0, Real(0, HOTTEST), "A beam's scores are divided by tokens to this power.", group=CAUSAL)
    energy: str = option("norm", Choice(get_args(EnergyKind)), "Energy of kernels and of the output")
    seed: int = option(0, Whole(0, LARGEST_SEED - 1), "Seed of all random choices.")
    temperature: float | None = like(Sampling, "temperature", group=OF_KERNELS)
    proposal_temperature: float | None = like(Sampling, "proposal_temperature", group=OF_KERNELS)
    block_size: int | None = like(Sampling, "block_size", group=OF_KERNELS)
    hot: float | None = like(Sampling, "hot", group=OF_KERNELS)
    cold: float | None = like(Sampling, "cold", group=OF_KERNELS)
    schedule: str | None = like(Sampling, "schedule", group=OF_KERNELS)
    decoding_temperature: float | None = like(Sampling, "decoding_temperature", group=OF_KERNELS, otherwise="0")
    gamma: float | None = like(Sampling, "gamma", group=OF_KERNELS)
    order: str | None = like(Sampling, "order", group=OF_KERNELS)
    restart: float | None = like(Sampling, "restart", group=OF_KERNELS)

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The decoder or the kernel."""
        if given.get("kernel") is not None:
            return (f"kernel {one_of('kernel', given['kernel'], MARKOV)}",)
        return (f"decoder {one_of('decoder', given.get('decoder') or 'mask-predict', (*DECODERS, *AUTOREGRESSIVE))}",)


@dataclass(frozen=True)
class TranslateOptions(Translating):
    """Options of `translate`."""

    more: ClassVar[str] = (
        "Each has text, energy, log_prob (any-order; of a causal model its own), passes, stutter, tokens and length. --reference "
        "prints BLEU and chrF, stutter, acceptance, and passes and seconds per sentence."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "unmask translate sources.txt --model translator",
        "unmask translate sources.txt --model translator --kernel mh --steps 20 --reference targets.txt --out translations.jsonl",
    )
    texts: Any = option(
        None,
        File(),
        "Sources, one per line; - reads standard input.",
        required="both",
        argument=True,
        metavar="FILE",
        python="Or a list of texts.",
    )
    model: Any = option(
        None,
        File(),
        "A folder of `unmask train --parallel`.",
        group=MODEL,
        required="both",
        python="Or one that was loaded (`PairModel.load`).",
    )
    device: str = option("auto", Text(), "auto, cpu, cuda or cuda:N.", group=MODEL)
    dtype: str = option("auto", Text(), "auto, float32, bfloat16, float16 or float64.", group=MODEL)
    reference: Any = option(
        None, File(), "A translation of each source, to measure against.", group=OUTPUT, python="Or a list of texts."
    )
    out: Any = option(None, File(), "Write the JSON lines here, not to standard output.", group=OUTPUT)
