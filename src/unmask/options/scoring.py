"""Options of `score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from unmask.joints.registry import FORMS
from unmask.options.kinds import Choice, Construction, Files, Flag, Folder, Listed, Repeated, Whole
from unmask.options.option import MODEL, OUTPUT, Options, Reads, option
from unmask.options.sampling import EnergyKind
from unmask.options.shared import ENGINES, LARGEST_SEED, Loaded, Printed, workers
from unmask.scoring.registry import SCORES, chosen

ROWS, UNITS, FORMATS = ("texts", "words", "tokens"), ("nats", "bits"), ("jsonl", "csv", "parquet")
MOST_EXACT = 16
"""Sites up to which the lattice of revealed sets is offered: 65,535 passes per text."""
OF_SCORES = "Of single scores"


class Scores(Listed):
    """Names of scores."""

    written = "with commas between them"

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        """Each once."""
        return chosen(given)


@dataclass(frozen=True)
class Scoring(Options):
    """What decides the numbers; see `unmask.scoring.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("score", {name: score.options for name, score in SCORES.items()}),)

    score: tuple[str, ...] = option(
        "pll", Scores(), f"Names: {', '.join(SCORES)}.", "-s", python="As a list, or with commas between them."
    )
    long: str = option(
        "refuse", Choice(("refuse", "windows")), "Texts longer than the model: refuse (a row with a reason) or windows."
    )
    exact_tokens: int = option(14, Whole(0, MOST_EXACT), "Exact up to this many tokens.", group=OF_SCORES)
    orders: int = option(64, Whole(2, 10**6), "Orders sampled for longer texts.", group=OF_SCORES)
    joint: str = option("balanced", Construction(), f"How joints are derived: {', '.join(FORMS)}.", "-j", group=OF_SCORES)
    candidates: int = option(64, Whole(1, 10**6), "Tokens considered per site.", "-n", group=OF_SCORES)
    energy: str = option("norm", Choice(get_args(EnergyKind)), "Which energy is normalised", group=OF_SCORES)
    chains: int = option(32, Whole(2, 10**6), "Annealing runs in each direction.", group=OF_SCORES)
    anneals: int = option(
        20, Whole(1, 10**6), "Distributions between the chain rule and exp(-E); more make tighter bounds.", group=OF_SCORES
    )
    seed: int = option(0, Whole(0, LARGEST_SEED), "Of sampled orders and of annealing.", group=OF_SCORES)

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Several scores, or the one engine."""
        return chosen(given.get("score", "pll")) if what == "score" else super().chosen(what, given)


@dataclass(frozen=True)
class ScoreOptions(Printed, Loaded, Scoring):
    """Options of `score`."""

    reads: ClassVar[tuple[Reads, ...]] = (*Scoring.reads, Reads("engine", {"local": (), "ray": ("workers",)}))
    examples: ClassVar[tuple[str, ...]] = (
        "unmask score 'The keys are here.' 'The keys is here.'",
        "unmask score sentences.txt --score pll,any_order --out scores --format csv",
    )
    python_only: ClassVar[Mapping[str, str]] = {
        "texts": 'One text, several, or mappings (see `reading`); a `Path` is a file, `Path("-")` standard input.',
        "sink": "Called with each row as it comes; rows are then not kept in memory.",
        **Options.python_only,
    }
    inputs: list[str] | None = option(
        None,
        Repeated(),
        "A file with one text per line, or .jsonl; - for standard input; or sentences themselves. "
        "Two sentences are compared token by token.",
        argument=True,
        command_only=True,
        metavar="FILE|-|SENTENCE...",
    )
    pairs: Any = option(
        None,
        Files(),
        "Minimal pairs instead of texts: .jsonl with sentence_good and sentence_bad, or a folder of such files.",
        python="Or mappings.",
    )
    definitions: bool = option(False, Flag(), "Print what each score is, and leave.", command_only=True)
    input: str | None = option(
        None, Choice(("text", "jsonl")), "How lines are read: text or jsonl.", otherwise="as the file's name says"
    )
    rows: str = option("texts", Choice(ROWS), "What a row is", group=OUTPUT)
    tokens: bool = option(False, Flag(), "Put each text's words and tokens into its row.", group=OUTPUT)
    unit: str = option("nats", Choice(UNITS), "nats or bits.", group=OUTPUT)
    out: Any = option(None, Folder(), "Folder of the run; the same command continues one that was stopped.", group=OUTPUT)
    format: str = option("jsonl", Choice(FORMATS), "jsonl, csv, or (with --out) parquet.", group=OUTPUT)
    engine: str = option("local", Choice(ENGINES), "local (this process), or ray (with --out).", group=MODEL)
    workers: int | None = workers()
