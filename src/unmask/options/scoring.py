"""Options of `score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from unmask.joints.registry import FORMS
from unmask.options.kinds import Choice, Construction, File, Files, Flag, Listed, Repeated, Text, Whole
from unmask.options.option import Options, Reads, grouped, model_row, option, output_row
from unmask.options.sampling import EnergyKind
from unmask.options.shared import ENGINES, LARGEST_SEED, Loaded, Printed, workers
from unmask.scoring.registry import DEFAULT, SCORES, chosen

INPUTS = ("text", "jsonl", "csv", "tsv")
ROWS, UNITS, FORMATS = ("texts", "words", "tokens"), ("nats", "bits"), ("jsonl", "csv", "parquet")
MOST_EXACT = 16
"""Sites up to which the lattice of revealed sets is offered: 65,535 passes per text."""
score_row = grouped("Of single scores")


class ScoreNames(Listed):
    """Names of scores."""

    written = "with commas between them"

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        """Each once."""
        return chosen(given)


@dataclass(frozen=True)
class Scoring(Options):
    """What decides the numbers; see `unmask.scoring.batch`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("score", {name: score.options for name, score in SCORES.items()}),)

    score: tuple[str, ...] = option(
        DEFAULT, ScoreNames(), f"Names: {', '.join(SCORES)}.", "-s", python="As a list, or with commas between them."
    )
    long: str = option(
        "refuse", Choice(("refuse", "windows")), "Texts longer than the model: refuse (a row with a reason) or windows."
    )
    exact_tokens: int = score_row(14, Whole(0, MOST_EXACT), "Exact up to this many tokens.")
    orders: int = score_row(64, Whole(2, 10**6), "Orders sampled for longer texts.")
    joint: str = score_row("balanced", Construction(), f"How joints are derived: {', '.join(FORMS)}.", "-j")
    candidates: int = score_row(64, Whole(1, 10**6), "Tokens considered per site.", "-n")
    energy: str = score_row("norm", Choice(get_args(EnergyKind)), "Which energy is normalised")
    chains: int = score_row(32, Whole(2, 10**6), "Annealing runs in each direction.")
    anneals: int = score_row(20, Whole(1, 10**6), "Distributions between the chain rule and exp(-E); more make tighter bounds.")
    seed: int = score_row(0, Whole(0, LARGEST_SEED), "Of sampled orders and of annealing.")

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Several scores, or the one engine."""
        return chosen(given.get("score", DEFAULT)) if what == "score" else super().chosen(what, given)


@dataclass(frozen=True)
class ScoreOptions(Printed, Loaded, Scoring):
    """Options of `score`."""

    reads = (*Scoring.reads, Reads("engine", {"local": (), "ray": ("workers",)}))
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
        "A file with one text per line, .jsonl, .csv or .tsv; - for standard input; or sentences themselves. "
        "Two sentences are compared token by token.",
        argument=True,
        command_only=True,
        metavar="FILE|-|SENTENCE...",
    )
    pairs: Any = option(
        None,
        Files(),
        "Minimal pairs instead of texts: .jsonl or .csv with sentence_good and sentence_bad, or a folder of .jsonl files.",
        python="Or mappings.",
    )
    definitions: bool = option(False, Flag(), "Print what each score is, and leave.", command_only=True)
    input: str | None = option(None, Choice(INPUTS), f"How a file is read: {', '.join(INPUTS)}.", otherwise="as its name says")
    field: str | None = option(
        None, Text(), "The column of a table, or the key of JSON lines, that holds the text.", otherwise="text, or sentence"
    )
    rows: str = output_row("texts", Choice(ROWS), "What a row is")
    tokens: bool = output_row(False, Flag(), "Put each text's words and tokens into its row.")
    unit: str = output_row("nats", Choice(UNITS), "nats or bits.")
    out: Any = output_row(None, File(), "Folder of the run; the same command continues one that was stopped.")
    format: str = output_row("jsonl", Choice(FORMATS), "jsonl, csv, or (with --out) parquet.")
    engine: str = model_row("local", Choice(ENGINES), "local (this process), or ray (with --out).")
    workers: int | None = workers()
