"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unmask.errors import InputError

CONSTRUCTION_NAMES = ("product", "mrf_logit", "mrf", "hcb", "arnold_gokhale", "balanced", "pseudo_gibbs", "chain")
"""The keys of `unmask.CONSTRUCTIONS`, here so that help texts need not load torch; a test holds the two equal."""

Text = Annotated[
    str,
    typer.Argument(help="Text with \\[MASK] at each blank; - reads it from standard input.", show_default=False),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Folder or hub name of a masked language model; the bundled English model if left out."),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        "--candidates",
        "-n",
        min=1,
        help="How many tokens to consider at each blank; as many as take about two seconds if left out.",
    ),
]
Exact = Annotated[bool, typer.Option("--exact", help="Consider every token of the vocabulary, special ones excepted.")]
Force = Annotated[bool, typer.Option("--force", help="Go on where there are more than 200,000 passes or a billion cells.")]
Top = Annotated[int, typer.Option("--top", "-t", min=1, help="How many completions to show.")]
Positions = Annotated[
    str | None,
    typer.Option(
        "--positions",
        help="Tokens of a whole text to blank out, such as 3,4; the text's first token, usually \\[CLS], is 0.",
    ),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16, float16 or float64.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (keys: docs/cli.md).")]


def read_text(text: str) -> str:
    """The text itself, or standard input for "-"."""
    return sys.stdin.read().rstrip("\r\n") if text == "-" else text


def read_positions(positions: str | None) -> list[int] | None:
    """ "3,4" as [3, 4]."""
    if positions is None:
        return None
    try:
        return [int(part) for part in positions.split(",")]
    except ValueError:
        raise InputError(
            f"positions {positions!r} are not numbers: give token positions separated by commas, such as 3,4"
        ) from None
