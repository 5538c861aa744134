"""Options of `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from unmask.joints.registry import FORMS
from unmask.options.kinds import Choice, Constructions, Folder, Memory, Text, Whole
from unmask.options.option import MODEL, OUTPUT, Reads, option
from unmask.options.shared import ALPHABET, ENGINES, LARGEST_SEED, Loaded, Printed, workers

Scheme = Literal["random", "contiguous"]
MOST_PAIRS = 10_000_000
MOST_STEPS = 1_000_000
PAIRS, JOINTS = "Pairs", "Joints"


@dataclass(frozen=True)
class EvaluateOptions(Printed, Loaded):
    """Options of `evaluate`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("engine", {"local": ("memory",), "ray": ("workers",)}),)
    examples: ClassVar[tuple[str, ...]] = (
        "unmask evaluate --data texts.txt --pairs 100 --out table",
        "unmask evaluate --model bert-base-cased --data snli --scheme contiguous --joints product,mrf,restarted --out snli",
    )
    data: Any = option(
        None,
        Text(),
        "Texts: a file with one per line, .conllu or .fasta (also .gz, .xz), - (standard input), or snli or xsum.",
        python="Or a list of texts.",
    )
    pairs_file: Any = option(
        None, Text(), 'Pairs instead of texts: JSON Lines, {"text": ..., "block": [i, j]}, in tokens.', group=PAIRS
    )
    scheme: str = option("random", Choice(get_args(Scheme)), "Two positions anywhere, or two adjacent ones", group=PAIRS)
    pairs: int = option(1000, Whole(1, MOST_PAIRS), "How many pairs to choose.", group=PAIRS)
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of the choice of pairs and of the bootstrap.", group=PAIRS)
    joints: Any = option("all", Constructions(), f"all, or some of {', '.join(FORMS)}.", group=JOINTS)
    arnold_gokhale_steps: int | None = option(
        None,
        Whole(1, MOST_STEPS),
        "Stop Arnold-Gokhale after this many steps from uniform (the paper: 50).",
        group=JOINTS,
        otherwise="run to convergence",
    )
    support: str = option(
        "regular",
        Choice(("regular", "all")),
        "What joints run over: regular tokens, or all columns of the model's output (the paper).",
        group=JOINTS,
    )
    alphabet: Any = option(
        None, Text(), f"The only tokens that joints run over: {ALPHABET}.", group=JOINTS, python="Or a list of tokens."
    )
    memory: Any = option(
        None,
        Memory(),
        "What the run may keep on the device, such as 20GB or 0.5; as many pairs as fit are measured at once.",
        group=MODEL,
        otherwise="half of a GPU's free memory; one pair at a time on a CPU",
    )
    engine: str = option("local", Choice(ENGINES), "local (this process), or ray.", group=MODEL)
    workers: int | None = workers()
    out: Any = option(
        None,
        Folder(),
        "Folder of the run; the same command continues a run that was stopped.",
        group=OUTPUT,
        required="command",
        python="Left out, the result is in memory only.",
    )
