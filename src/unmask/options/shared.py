"""Rows that several verbs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.options.kinds import Candidates, File, Flag, Numbers, Renames, Text, Whole, Words
from unmask.options.option import MODEL, OUTPUT, Options, option

ALPHABET = "letters such as ACDEFGHIKLMNPQRSTVWY, words with commas between them, or a file of either"
MOST_CANDIDATES = 10**7
LARGEST_SEED = 2**63 - 1
ENGINES = ("local", "ray")
MOST_WORKERS = 10_000


@dataclass(frozen=True)
class Loaded(Options):
    """Where a model is, and how it runs."""

    model: Any = option(
        None,
        Text(),
        "Folder or hub name of a masked language model.",
        "-m",
        group=MODEL,
        otherwise="the bundled English model",
        python="Or a MaskedLM.",
    )
    device: str = option("auto", Text(), "auto, cpu, cuda or cuda:N.", group=MODEL)
    dtype: str = option("auto", Text(), "auto, float32, bfloat16, float16 or float64.", group=MODEL)
    rename: Mapping[str, str] | None = option(
        None, Renames(), "A tensor of the checkpoint that the model has under another name.", group=MODEL
    )


@dataclass(frozen=True)
class Printed(Options):
    """What a command prints."""

    json: bool = option(False, Flag(), "Print JSON (keys: docs/cli.md).", group=OUTPUT, command_only=True)


def texts(help: str) -> Any:
    """The row of one text, or of several."""
    typed = "Or -: several from standard input, one per line."
    listed = "Or a list of them, for a list of answers; `.each` gives these one by one."
    return option(None, Text(), help, required="python", argument=True, command=typed, python=listed)


@dataclass(frozen=True)
class Texts(Options):
    """Several texts."""

    file: Path | None = option(
        None, File(), "Texts from a file, one per line or FASTA, instead of TEXT; - is standard input.", command_only=True
    )


GRID = "Candidates"


@dataclass(frozen=True)
class Grid(Options):
    """Tokens that are considered at the blanks."""

    positions: Sequence[int] | None = option(
        None, Numbers(int), "Tokens of a whole text to blank out, such as 3,4; the text's first token, usually [CLS], is 0."
    )
    candidates: Any = option(
        None,
        Candidates(1, MOST_CANDIDATES),
        "How many tokens to consider at each blank.",
        "-n",
        group=GRID,
        otherwise="as many as take about two seconds",
        python="Or the token ids themselves, for each blank.",
    )
    exact: bool = option(False, Flag(), "Consider every token of the vocabulary, special ones excepted.", group=GRID)
    alphabet: Any = option(
        None,
        Text(),
        f"The only tokens that may stand in a blank: {ALPHABET}; as many candidates as the limits allow.",
        group=GRID,
        python="Or a list of tokens.",
    )
    force: bool = option(False, Flag(), "Go on where there are more than 200,000 passes or a billion cells.", group=GRID)


@dataclass(frozen=True)
class Targets(Options):
    """The words of the blanks."""

    targets: Sequence[str] | None = option(None, Words(), "The words that belong in the blanks: shown, and measured by compare.")


@dataclass(frozen=True)
class Drawn(Options):
    """A figure."""

    figure: Any = option(None, File(), "Draw a figure to this file (png, pdf, svg).", group=OUTPUT)


def workers() -> Any:
    """The row of `workers`."""
    return option(None, Whole(1, MOST_WORKERS), "Workers on Ray.", group=MODEL, otherwise="one per GPU, or per two CPUs")
