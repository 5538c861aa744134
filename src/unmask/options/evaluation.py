"""Options of `frontier`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.options.kinds import Decoders, File, Flag, Numbers, Text, Whole
from unmask.options.option import option, output_row
from unmask.options.shared import LARGEST_SEED, Loaded, Printed

MOST_TEXTS = 10_000_000
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
    sentences: int = option(256, Whole(1, MOST_TEXTS), "The most texts to measure.")
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
