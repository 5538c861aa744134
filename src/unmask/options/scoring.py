"""Options of `score`, `evaluate`, `frontier`, and of `lm_eval --model unmask`, which are the names of `--model_args`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, get_args

from unmask.errors import InputError
from unmask.joints.registry import DEFAULT as DEFAULT_JOINT
from unmask.joints.registry import FORMS
from unmask.options.kinds import (
    Alphabet,
    Choice,
    Construction,
    Constructions,
    Decoders,
    File,
    Files,
    Flag,
    Listed,
    Memory,
    Numbers,
    Repeated,
    Text,
    Whole,
)
from unmask.options.option import Options, Reads, grouped, like, model_row, option, output_row
from unmask.options.sampling import LONGEST, EnergyKind, Sampling
from unmask.options.shared import ALPHABET, LARGEST_SEED, ON_RAY, Loaded, Printed, SharedWork
from unmask.sampling.registry import KERNELS
from unmask.scoring.registry import DECODER, DEFAULT, DEFAULT_OF_HARNESS, LAWS, SCORES, Score, chosen

ROWS, UNITS, FORMATS = ("texts", "words", "tokens", "nested"), ("nats", "bits"), ("jsonl", "csv", "parquet")
pairs_row, joints_row = map(grouped, ("Pairs", "Joints"))
score_row = partial(
    option, group="Of single scores", command_only=True, python="give an entry, such as unmask.AnyOrder(orders=32)"
)
READ = {name: tuple(field.name for field in fields(entry)) for name, entry in SCORES.items()} | dict.fromkeys(LAWS, ("seed",))
OWN = tuple(dict.fromkeys(option for options in READ.values() for option in options))
"""The options of single scores: fields of their entries."""
Scheme = Literal["random", "contiguous"]
MOST_PAIRS, MOST_STEPS = 10_000_000, 1_000_000
MOST_TEXTS, MOST_TOKENS = 10_000_000, 100_000
DECODERS = {name: entry.options for name, entry in KERNELS.items() if "decoding_temperature" in entry.options}
"""The decoders that can take the likeliest token, which the harness calls greedy."""


def run_folder() -> Any:
    """The row of a verb whose run is kept in a folder and continued."""
    return output_row(
        None,
        File(),
        "Folder of the run; the same command continues a run that was stopped.",
        required="command",
        python="Left out, the result is in memory only.",
    )


class ScoreNames(Listed):
    """Names of scores."""

    written = "with commas"

    def check(self, name: str, given: Any) -> tuple[Score, ...]:
        """Each once."""
        return chosen(given)


@dataclass(frozen=True)
class Scoring(Options):
    """What decides the numbers; the options of single scores are fields of their entries."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("score", READ),)

    score: tuple[Score, ...] = option(
        DEFAULT,
        ScoreNames(),
        f"Names: {', '.join(SCORES)}, {DECODER}NAME@PASSES.",
        "-s",
        python="As a list, or with commas between them; or entries, such as unmask.AnyOrder(orders=32).",
    )
    exact_tokens: int = score_row(14, Whole(0, 16), "Exact up to this many tokens.")
    orders: int = score_row(64, Whole(2, 10**6), "Orders sampled for longer texts.")
    joint: str = score_row(DEFAULT_JOINT, Construction(), f"How joints are derived: {', '.join(FORMS)}.", "-j")
    candidates: int = score_row(64, Whole(1, 10**6), "Tokens considered per site.", "-n")
    energy: str = score_row("norm", Choice(get_args(EnergyKind)), "Which energy is normalised")
    chains: int = score_row(32, Whole(2, 10**6), "Annealing runs in each direction.")
    anneals: int = score_row(20, Whole(1, 10**6), "Distributions between the chain rule and exp(-E); more make tighter bounds.")
    seed: int = score_row(0, Whole(0, LARGEST_SEED), "Of sampled orders and of annealing.")

    @classmethod
    def chosen(cls, what: str, given: Any) -> tuple[str, ...]:
        """Several scores, or the one engine."""
        if what != "score":
            return super().chosen(what, given)
        return tuple(score.name.partition("@")[0] for score in chosen(given.get("score", DEFAULT)))


@dataclass(frozen=True)
class ScoreOptions(Printed, SharedWork, Loaded, Scoring):
    """Options of `score` and `evaluate`."""

    reads = (*Scoring.reads, ON_RAY)
    examples = (
        "unmask score 'The keys are here.' 'The keys is here.'",
        "unmask score sentences.txt --score pll,any_order --out scores --format csv",
    )
    python_only = {
        "texts": 'One text, several, or mappings (see `unmask.scoring.texts`); a `Path` is a file, `Path("-")` standard input.',
        "sink": "Called with each row as it comes; rows are then not kept in memory.",
        **Options.python_only,
    }
    inputs: list[str] | None = option(
        None,
        Repeated(),
        "A file with one text per line, .jsonl, .csv, .tsv or .fasta; - for standard input; or sentences themselves. "
        "Two sentences are compared token by token.",
        argument=True,
        command_only=True,
        metavar="FILE|-|SENTENCE...",
        python="give them first, or as texts",
    )
    pairs: Any = option(
        None,
        Files(),
        "Minimal pairs instead of texts: .jsonl or .csv with sentence_good and sentence_bad, EWoK, entity tracking; or a folder.",
        python="Or mappings.",
    )
    long: str = option(
        "refuse", Choice(("refuse", "windows")), "Texts longer than the model: refuse (a row with a reason) or windows."
    )
    field: str | None = option(
        None,
        Text(),
        "The column of a table, or the key of JSON lines, that holds the text; with it, standard input has JSON lines.",
        otherwise="text, or sentence",
    )
    rows: str = output_row(
        "texts", Choice(ROWS), "What a row is: a text, a word, a token; nested: a text with its words and tokens"
    )
    unit: str = output_row("nats", Choice(UNITS), "nats or bits.")
    out: Any = output_row(None, File(), "Folder of the run; the same command continues one that was stopped.")
    format: str = output_row("jsonl", Choice(FORMATS), "jsonl, csv, or (with --out) parquet.")


@dataclass(frozen=True)
class EvaluateOptions(Printed, SharedWork, Loaded):
    """Options of `evaluate`."""

    reads = (ON_RAY,)
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
        "What the run, or each worker, may keep on the device, such as 20GB or 0.5; as many pairs as fit are measured at once.",
        otherwise="half of a GPU's free memory; one pair at a time on a CPU",
    )
    out: Any = run_folder()


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
    out: Any = run_folder()


class OneScore(ScoreNames):
    """The name of a score."""

    def check(self, name: str, given: Any) -> tuple[Score, ...]:
        """One name."""
        scores = super().check(name, given)
        if len(scores) > 1:
            names = ", ".join(score.name for score in scores)
            raise InputError(f"{name} {names} are {len(scores)} scores, and the harness takes one number: name one")
        return scores


@dataclass(frozen=True)
class HarnessOptions(Loaded, Scoring):
    """What decides the answers to the harness, which calls the model `pretrained`."""

    reads = (*Scoring.reads, Reads("decoder", DECODERS))

    score: tuple[Score, ...] = like(Scoring, "score", kind=OneScore(), default=DEFAULT_OF_HARNESS, otherwise="")
    unscored: str = option(
        "refuse", Choice(("refuse", "zero")), "A text without a score: refuse (one line), or zero (probability 0)."
    )
    decoder: str = option("confidence", Choice(tuple(DECODERS)), "What fills the blanks of generated texts")
    decoding_steps: int | None = like(Sampling, "decoding_steps", otherwise="one per blank, or by the decoder's bound")
    max_gen_toks: int = option(32, Whole(1, LONGEST), "Blanks of a generated text, if the task does not say.")

    @classmethod
    def chosen(cls, what: str, given: Any) -> tuple[str, ...]:
        """The score is by default the harness's own."""
        return super().chosen(what, {"score": DEFAULT_OF_HARNESS, **given})
