"""Options of `sample` and `diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from unmask.joints.registry import FORMS
from unmask.options.kinds import AllowedTokens, Choice, Construction, File, Flag, Folder, Memory, Numbers, Real, Text, Whole
from unmask.options.option import MODEL, OUTPUT, Options, Reads, option
from unmask.options.shared import LARGEST_SEED, Loaded, Printed
from unmask.sampling.registry import KERNELS

EnergyKind = Literal["raw", "norm"]
Scan = Literal["random", "fixed", "permutation"]
BlockShape = Literal["window", "scattered", "dependent", "independent"]
Schedule = Literal["linear", "cosine"]
Order = Literal["random", "left-to-right", "right-to-left"]

HOTTEST = 1e6
MOST_CHAINS, MOST_SWEEPS, LONGEST = 10**6, 10**9, 10**5
TEMPERATURE = Real(0, HOTTEST, above=True)
START, MOVES, BLOCKS, DECODING = "Start and support", "Moves", "Blocks", "Decoding"


@dataclass(frozen=True)
class Sampling(Options):
    """Everything that decides which samples a run draws; see `unmask.sampling.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("kernel", {name: entry.options for name, entry in KERNELS.items()}),)

    kernel: str = option("mh", Choice(tuple(KERNELS)), "What moves the chains, or a decoder")
    energy: EnergyKind = option("norm", Choice(get_args(EnergyKind)), "Which energy the chains sample")
    temperature: float = option(1.0, TEMPERATURE, "Of the energy: exp(-E / temperature).", group=MOVES)
    length: tuple[int, ...] = option(
        (12,), Numbers(int, Whole(1, LONGEST), alone=True), "Tokens per text, or several lengths such as 8,12,16.", left_out=None
    )
    chains: int = option(64, Whole(1, MOST_CHAINS), "How many chains (or texts decoded side by side).")
    sweeps: int = option(100, Whole(1, MOST_SWEEPS), "How often each chain redraws all of its tokens.")
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of all random choices.")
    burn_in: int = option(0, Whole(0, MOST_SWEEPS), "Sweeps at the beginning that are not kept.")
    thin: int = option(1, Whole(1, MOST_SWEEPS), "Keep every n-th sweep.")
    init: tuple[str, ...] = option(
        (),
        File(),
        "File of texts to start from, one per line; chains take them in turn.",
        group=START,
        otherwise="blanks are filled one by one",
        python="Or a list of texts.",
    )
    random_start: bool = option(False, Flag(), "Start from tokens drawn uniformly.", group=START)
    template: str | None = option(
        None, Text(), "A text with [MASK] where tokens are sampled; the rest is held. Instead of --length."
    )
    allow: tuple[tuple[int, tuple[str, ...]], ...] = option(
        (),
        AllowedTokens(LONGEST),
        "Tokens allowed at a position, such as 3=red,green; [CLS] is position 0.",
        group=START,
        left_out=None,
        python='Or {3: ["red", "green"]}.',
    )
    alphabet: tuple[str, ...] = option(
        (),
        Text(),
        "Tokens allowed at every site: letters (ACDE), words with commas, or a file of them.",
        group=START,
        left_out=None,
        python="Or a list of tokens.",
    )
    scan: Scan = option("permutation", Choice(get_args(Scan)), "Order of the updates of a sweep", group=MOVES)
    block_size: int = option(2, Whole(1, LONGEST), "Tokens that a step redraws at once.", group=BLOCKS)
    block_shape: BlockShape = option(
        "window",
        Choice(get_args(BlockShape)),
        f"{', '.join(get_args(BlockShape))}: neighbours, any positions, or those that depend most or least on each other, as "
        "measured at the start.",
        group=BLOCKS,
    )
    proposal_temperature: float = option(1.0, TEMPERATURE, "Of the proposed tokens.", group=MOVES)
    top_k: int | None = option(
        None, Whole(1, 10**9), "Propose the likeliest tokens only; the chain is then reducible.", group=MOVES
    )
    nucleus: float | None = option(
        None, Real(0, 1, above=True), "Propose the likeliest share of tokens only; the chain is then reducible.", group=MOVES
    )
    delayed: tuple[int, ...] = option(
        (),
        Numbers(int, Whole(0, LONGEST)),
        "Delayed acceptance: decide in stages that end at these distances, such as 1,3.",
        group=MOVES,
    )
    ladder: tuple[float, ...] = option(
        (1.0, 1.5, 2.25), Numbers(float, TEMPERATURE), "Temperatures, rising; the first is sampled.", group=MOVES
    )
    hot: float = option(2.0, TEMPERATURE, "First temperature.", group=MOVES)
    cold: float = option(0.1, TEMPERATURE, "Last temperature.", group=MOVES)
    joint: str = option(
        "pseudo_gibbs",
        Construction(),
        f"Construction of pairs, and of measured dependence: {', '.join(FORMS)}.",
        group=BLOCKS,
    )
    candidates: int = option(16, Whole(1, 10**5), "Tokens per position of pairs, and of measured dependence.", group=BLOCKS)
    decoding_steps: int = option(10, Whole(1, 10**6), "Steps to a whole text.", group=DECODING)
    schedule: Schedule = option("linear", Choice(get_args(Schedule)), "How many blanks are left after each step", group=DECODING)
    decoding_temperature: float = option(1.0, Real(0, HOTTEST), "Of the predicted tokens; 0 takes the likeliest.", group=DECODING)
    gamma: float = option(
        1.0,
        Real(0, HOTTEST),
        "Nats of dependence that one step may lose: more is fewer steps; 0 fills one by one.",
        group=DECODING,
    )
    order: Order = option("random", Choice(get_args(Order)), "In which blanks are filled", group=DECODING)
    restart: float = option(
        0.1, Real(0, 1, above=True), "Of refined draws: the probability of stopping before each Gibbs step.", group=DECODING
    )


@dataclass(frozen=True)
class SampleOptions(Printed, Loaded, Sampling):
    """Options of `sample`."""

    examples: ClassVar[tuple[str, ...]] = (
        "unmask sample --template 'The [MASK] sat on the [MASK].' --chains 8 --sweeps 50 --seed 1",
        "unmask sample --kernel mask-predict --length 12 --chains 16 --sweeps 1 --out texts",
    )
    python_only: ClassVar[Mapping[str, str]] = {
        "user_terms": "Functions from token ids (n, T) to n numbers that are added to the energy.",
        **Options.python_only,
    }
    out: Any = option(
        None, File(), "Keep the run in this folder; the same command continues a run that was stopped.", group=OUTPUT
    )
    chains_at_once: int | None = option(
        None, Whole(1, MOST_CHAINS), "Chains side by side; changes memory and speed, not the samples.", group=MODEL
    )
    memory: Any = option(None, Memory(), "For what the chains keep, such as 2GB or 0.5; the rest is computed again.", group=MODEL)


@dataclass(frozen=True)
class DiagnoseOptions(Printed):
    """Options of `diagnose`."""

    examples: ClassVar[tuple[str, ...]] = ("unmask diagnose run", "unmask diagnose run --judge gpt2 --json")
    python_only: ClassVar[Mapping[str, str]] = {}
    run: Any = option(
        None,
        Folder(),
        "The --out folder of an `unmask sample` run, finished or not.",
        required="both",
        argument=True,
        metavar="FOLDER",
        python="Or what `sample` returned.",
    )
    judge: str | None = option(None, Text(), "A causal language model, by name or folder, that scores the texts.")
    device: str = option("auto", Text(), "auto, cpu, cuda or cuda:N.", group=MODEL)
