"""Options of `evaluate` and `frontier`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from unmask.joints.registry import FORMS
from unmask.options.kinds import Alphabet, Choice, Constructions, Decoders, File, Flag, Memory, Numbers, Text, Whole
from unmask.options.option import Reads, grouped, model_row, option, output_row
from unmask.options.shared import ALPHABET, ENGINES, LARGEST_SEED, Loaded, Printed, workers

Scheme = Literal["random", "contiguous"]
MOST_PAIRS = 10_000_000
MOST_STEPS = 1_000_000
pairs_row, joints_row = grouped("Pairs"), grouped("Joints")


@dataclass(frozen=True)
class EvaluateOptions(Printed, Loaded):
    """Options of `evaluate`."""

    reads = (Reads("engine", {"local": ("memory",), "ray": ("workers",)}),)
    examples = (
        "unmask evaluate --data texts.txt --pairs 100 --out table",
        "unmask evaluate --model bert-base-cased --data snli --scheme contiguous --joints product,mrf,restarted --out snli",
    )
    data: Any = option(
        None,
        Text(),
        "Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum.",
        python="Or a list of texts.",
    )
    pairs_file: Any = pairs_row(None, Text(), 'Pairs instead of texts: JSON Lines, {"text": ..., "block": [i, j]}, in tokens.')
    scheme: str = pairs_row("random", Choice(get_args(Scheme)), "Two positions anywhere, or two adjacent ones")
    pairs: int = pairs_row(1000, Whole(1, MOST_PAIRS), "How many pairs to choose.")
    seed: int = pairs_row(0, Whole(0, LARGEST_SEED), "Seed of the choice of pairs and of the bootstrap.")
    joints: Any = joints_row("all", Constructions(), f"all, or some of {', '.join(FORMS)}.")
    arnold_gokhale_steps: int | None = joints_row(
        None,
        Whole(1, MOST_STEPS),
        "Stop Arnold-Gokhale after this many steps from uniform (the paper: 50).",
        otherwise="run to convergence",
    )
    support: str = joints_row(
        "regular",
        Choice(("regular", "all")),
        "What joints run over: regular tokens, or all columns of the model's output (the paper).",
    )
    alphabet: Any = joints_row(None, Alphabet(), f"The only tokens that joints run over: {ALPHABET}.")
    memory: Any = model_row(
        None,
        Memory(),
        "What the run may keep on the device, such as 20GB or 0.5; as many pairs as fit are measured at once.",
        otherwise="half of a GPU's free memory; one pair at a time on a CPU",
    )
    engine: str = model_row("local", Choice(ENGINES), "local (this process), or ray.")
    workers: int | None = workers()
    out: Any = output_row(
        None,
        File(),
        "Folder of the run; the same command continues a run that was stopped.",
        required="command",
        python="Left out, the result is in memory only.",
    )


MOST_TOKENS = 100_000


@dataclass(frozen=True)
class FrontierOptions(Printed, Loaded):
    """Options of `frontier`."""

    more = "All tokens are masked at the start; q runs over regular tokens at temperature 1. Intervals are paired by text."
    examples = (
        "unmask frontier --data texts.txt --out frontier",
        "unmask frontier --data texts.txt --decoders least-dependent,interleaved --passes 4,8 --length 32 --first --out frontier",
    )
    data: Any = option(
        None,
        Text(),
        "Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum.",
        required="both",
        python="Or a list of texts.",
    )
    decoders: Any = option(None, Decoders(), "Decoders with a law.", otherwise="all")
    passes: Any = option((2, 4, 8, 16), Numbers(int, Whole(1, MOST_TOKENS)), "Passes of each, below --length.")
    length: int = option(16, Whole(2, MOST_TOKENS), "Tokens of a text; texts of another length are skipped.")
    first: bool = option(False, Flag(), "Take the first tokens of longer texts, too.")
    sentences: int = option(256, Whole(1, MOST_PAIRS), "The most texts to measure.")
    profile: Any = option(
        None,
        File(),
        "Dependence by distance, for least-dependent: a file of `unmask dependence --profile`.",
        otherwise="the model's own",
    )
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of random orders and of the bootstrap.")
    out: Any = output_row(
        None,
        File(),
        "Folder of the run; the same command continues a run that was stopped.",
        required="command",
        python="Left out, the result is in memory only.",
    )
