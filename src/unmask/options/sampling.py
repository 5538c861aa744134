"""Options of `sample` and `diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from unmask.joints.registry import DEFAULT_OF_DEPENDENCE, FORMS
from unmask.options.kinds import (
    AllowedTokens,
    Alphabet,
    Choice,
    Construction,
    File,
    Flag,
    Numbers,
    Real,
    Text,
    TextFile,
    Whole,
)
from unmask.options.option import Options, Reads, grouped, option
from unmask.options.shared import LARGEST_SEED
from unmask.sampling.registry import HOTTEST, KERNELS, LEAST_RESTART, LONGEST, MOST_STEPS, BlockShape, EnergyKind, Order, Scan

MOST_CHAINS, MOST_SWEEPS = 10**6, 10**9
TEMPERATURE = Real(0, HOTTEST, above=True)
start_row, moves_row, blocks_row, decoding_row = map(grouped, ("Start and support", "Moves", "Blocks", "Decoding"))


READ = {name: (*one.options, *(() if one.decodes else ("init", "random_start"))) for name, one in KERNELS.items()}


@dataclass(frozen=True)
class Sampling(Options):
    """Everything that decides which samples a run draws; see `unmask.sampling.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("kernel", READ),)

    kernel: str = option("mh", Choice(tuple(KERNELS)), "What moves the chains, or a decoder")
    energy: EnergyKind = option("norm", Choice(get_args(EnergyKind)), "Which energy the chains sample")
    temperature: float = moves_row(1.0, TEMPERATURE, "Of the energy: exp(-E / temperature).")
    length: tuple[int, ...] = option(
        (12,),
        Numbers(int, Whole(1, LONGEST), alone=True),
        "Tokens per text, or several lengths such as 8,12,16.",
        left_out=None,
        python="A number, or a list.",
    )
    chains: int = option(64, Whole(1, MOST_CHAINS), "Chains, or texts decoded at once.")
    sweeps: int = option(100, Whole(1, MOST_SWEEPS), "How often each chain redraws all of its tokens.")
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of all random choices.")
    burn_in: int = option(0, Whole(0, MOST_SWEEPS), "First sweeps that are not kept.")
    thin: int = option(1, Whole(1, MOST_SWEEPS), "Keep every n-th sweep.")
    init: tuple[str, ...] = start_row(
        (),
        TextFile(),
        "File of texts to start from, one per line or FASTA; chains take them in turn.",
        otherwise="blanks are filled one by one",
    )
    random_start: bool = start_row(False, Flag(), "Start from tokens drawn uniformly.")
    template: str | None = option(
        None, Text(), "A text with [MASK] where tokens are sampled; the rest is held. Instead of --length."
    )
    allow: tuple[tuple[int, tuple[str, ...]], ...] = start_row(
        (), AllowedTokens(LONGEST), "Tokens allowed at a position, such as 3=red,green; [CLS] is position 0.", left_out=None
    )
    alphabet: tuple[str, ...] = start_row(
        (), Alphabet(), "Tokens allowed at every site: letters (ACDE), words with commas, or a file.", left_out=None
    )
    scan: Scan = moves_row("permutation", Choice(get_args(Scan)), "Order of the updates of a sweep")
    block_size: int = blocks_row(2, Whole(1, LONGEST), "Tokens that a step redraws at once.")
    block_shape: BlockShape = blocks_row(
        "window", Choice(get_args(BlockShape)), f"{', '.join(get_args(BlockShape))}: neighbours, or any positions."
    )
    proposal_temperature: float = moves_row(1.0, TEMPERATURE, "Of the proposed tokens.")
    top_k: int | None = moves_row(None, Whole(1, 10**9), "Propose the likeliest tokens only; the chain is then reducible.")
    delayed: tuple[int, ...] = moves_row(
        (), Numbers(int, Whole(0, LONGEST)), "Delayed acceptance: decide in stages that end at these distances, such as 1,3."
    )
    ladder: tuple[float, ...] = moves_row(
        (1.0, 1.5, 2.25), Numbers(float, TEMPERATURE), "Temperatures, rising; the first is sampled."
    )
    hot: float = moves_row(2.0, TEMPERATURE, "First temperature.")
    cold: float = moves_row(0.1, TEMPERATURE, "Last temperature.")
    joint: str = blocks_row(DEFAULT_OF_DEPENDENCE, Construction(), f"Construction of pairs: {', '.join(FORMS)}.")
    candidates: int = blocks_row(16, Whole(1, 10**5), "Tokens per position of pairs.")
    decoding_steps: int | None = decoding_row(
        None, Whole(1, MOST_STEPS), "Steps to a whole text.", otherwise="10, or as many as a bound needs"
    )
    decoding_temperature: float = decoding_row(1.0, Real(0, HOTTEST), "Of the predicted tokens; 0 takes the likeliest.")
    gamma: float | None = decoding_row(
        None,
        Real(0, HOTTEST),
        "Nats of dependence that one step may lose, instead of a number of steps: more is fewer; 0 fills one by one.",
        otherwise="the decoder's own",
    )
    tau: float | None = decoding_row(
        None, Real(0, 1), "Probability of the likeliest token from which a blank is filled, instead of steps.", otherwise="0.9"
    )
    profile: Any = decoding_row(
        None,
        File(),
        "Dependence by distance: a file of `unmask dependence --profile`.",
        otherwise="the model's own",
        python="Or a `Profile`.",
    )
    order: Order = decoding_row("random", Choice(get_args(Order)), "In which blanks are filled")
    restart: float = decoding_row(
        0.1, Real(LEAST_RESTART, 1), "Of refined draws: the probability of stopping before each Gibbs step."
    )
