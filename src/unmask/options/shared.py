"""Rows that several verbs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from unmask.options.kinds import Alphabet, Candidates, Choice, File, Flag, Numbers, Renames, Text, Whole, Words
from unmask.options.option import Fold, Options, Reads, grouped, model_row, option, output_row

ALPHABET = "letters such as ACDEFGHIKLMNPQRSTVWY, words with commas, or a file of either"
MOST_CANDIDATES = 10**7
LARGEST_SEED = 2**63 - 1
ENGINES = ("local", "ray")
MOST_WORKERS = 10_000


@dataclass(frozen=True)
class Loaded(Options):
    """Where a model is, and how it runs."""

    folds: ClassVar[tuple[Fold, ...]] = (
        Fold("--device NAME", "dtype, unusual checkpoints", ("dtype", "rename", "lang", "shift", "mask_token")),
    )

    model: Any = model_row(
        None,
        Text(),
        "Folder or hub name of a masked language model.",
        "-m",
        otherwise="the bundled English model",
        python="Or a MaskedLM.",
    )
    device: str = model_row("auto", Text(), "auto, cpu, cuda or cuda:N.")
    dtype: str = model_row("auto", Text(), "auto, float32, bfloat16, float16 or float64.")
    rename: Mapping[str, str] | None = model_row(
        None, Renames(), "A tensor of the checkpoint that the model has under another name."
    )
    lang: str | None = model_row(None, Text(), "Language of the texts (XLM, X-MOD).")
    shift: bool = model_row(False, Flag(), "Logits predict the next position's token.")
    mask_token: str | None = model_row(None, Text(), "The mask token, if it is not named.")


@dataclass(frozen=True)
class Printed(Options):
    """What a command prints."""

    json: bool = output_row(
        False, Flag(), "Print JSON (keys: docs/cli).", command_only=True, python="use .to_dict() of what it returns"
    )


def texts(help: str, required: str = "python") -> Any:
    """The row of one text, or of several."""
    typed = "Or -: several from standard input, one per line."
    listed = "Or a list of them, for a list of answers; `.each` gives these one by one."
    return option(None, Text(), help, required=required, argument=True, command=typed, python=listed)


@dataclass(frozen=True)
class Texts(Options):
    """Several texts."""

    file: Path | None = option(
        None,
        File(),
        "Texts from a file, one per line or FASTA, instead of TEXT; - is standard input.",
        command_only=True,
        python="give a list of texts",
    )


grid_row = grouped("Candidates")


@dataclass(frozen=True)
class Grid(Options):
    """Tokens that are considered at the blanks."""

    positions: Sequence[int] | None = option(
        None, Numbers(int), "Tokens of a whole text to blank out, such as 3,4; the first, usually [CLS], is 0."
    )
    candidates: Any = grid_row(
        None,
        Candidates(1, MOST_CANDIDATES),
        "How many tokens to consider at each blank.",
        "-n",
        otherwise="as many as take about two seconds",
    )
    exact: bool = grid_row(False, Flag(), "Consider every token of the vocabulary, special ones excepted.")
    alphabet: Any = grid_row(
        None, Alphabet(), f"The only tokens that may stand in a blank: {ALPHABET}; as many candidates as the limits allow."
    )
    force: bool = grid_row(False, Flag(), "Go on where there are more than 200,000 passes or a billion cells.")


@dataclass(frozen=True)
class Targets(Options):
    """The words of the blanks."""

    targets: Sequence[str] | None = option(None, Words(), "The words that belong in the blanks: shown, and measured by compare.")


@dataclass(frozen=True)
class Drawn(Options):
    """A figure."""

    figure: Any = output_row(None, File(), "Draw a figure to this file (png, pdf, svg).")


ON_RAY = Reads("engine", {"local": (), "ray": ("workers",)})


@dataclass(frozen=True)
class SharedWork(Options):
    """Where the work is done; `reads` of its verbs has ON_RAY."""

    engine: str = model_row("local", Choice(ENGINES), "local or ray (cluster).")
    workers: int | None = model_row(None, Whole(1, MOST_WORKERS), "Workers on Ray.", otherwise="one per GPU, or per two CPUs")
