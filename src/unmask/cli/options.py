"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.checks import numbers
from unmask.errors import InputError
from unmask.joints.registry import FORMS
from unmask.runs.lines import STANDARD_INPUT, plain_texts, told

MOST_DIGITS = 9
"""Of a number of a blank; Python refuses to read numbers of thousands."""


def path(given: str) -> Path:
    """The path, `~` being the home folder also where the shell has not replaced it."""
    if not given.strip() or "\0" in given:
        raise typer.BadParameter(f"{given!r} names no file: give a path")
    expanded = os.path.expanduser(given)
    if expanded.startswith("~"):
        raise typer.BadParameter(f"{given!r} starts with ~, and there is no such home folder: write the path out")
    return Path(expanded)


def names_a_file(given: str) -> bool:
    """Whether a text is a file that exists, or could be the path of one: it has no space, and no part is too long for a name."""
    could_be = (
        not any(c.isspace() for c in given.strip())
        and max(len(part.encode(errors="replace")) for part in given.split("/")) <= 255
    )
    return could_be or os.path.isfile(os.path.expanduser(given))


def one_of_two_files(given: str) -> Path:
    """A path of an option that takes two; the name of the next option means that one is missing."""
    if given.startswith("--"):
        raise typer.BadParameter(f"two files are needed, and {given} stands where the second should: give SOURCE TARGET")
    return path(given)


Text = Annotated[
    str | None,
    typer.Argument(help="Text with \\[MASK] at each blank; - reads texts from standard input, one per line.", show_default=False),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        parser=path,
        metavar="PATH",
        help="Texts from a file, one per line or FASTA, instead of TEXT; - is standard input.",
    ),
]
Joint = Annotated[str, typer.Option("--joint", "-j", help=f"How the joint is derived: {', '.join(FORMS)}.")]
JointOrDefault = Annotated[
    str | None,
    typer.Option(
        "--joint",
        "-j",
        help=f"How the joint is derived: {', '.join(FORMS)}; restarted for one or two blanks, chain from three on if left out.",
        show_default=False,
    ),
]
Answers = Annotated[
    str | None, typer.Option("--answers", help="Fillings to score beside the best, with commas between them; of any length.")
]
Pieces = Annotated[int, typer.Option("--pieces", help="The most tokens of a \\[WORD].")]
Lengths = Annotated[
    str, typer.Option("--lengths", help="How the lengths of \\[WORD] and \\[GAP:2-5] are weighed: uniform, or by fit.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="BLANK=WORDS", help="The only words of a blank, such as 2=red,green; repeat."),
]
Forbid = Annotated[str | None, typer.Option("--forbid", help="Words that no blank may take, with commas between them.")]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="BLANK=REGEX", help="What a blank's filling must match as a whole, such as 2=.*ing."),
]
Differ = Annotated[bool, typer.Option("--differ", help="Leave out the tokens that stood at --positions.")]
Passes = Annotated[
    int | None, typer.Option("--passes", help="The most passes of the search by chain; 1,000 if left out.", show_default=False)
]
Mass = Annotated[
    float | None,
    typer.Option("--mass", help="Search by chain until so much probability is found, such as 0.5.", show_default=False),
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
        help="How many tokens to consider at each blank; as many as take about two seconds if left out.",
    ),
]
Exact = Annotated[bool, typer.Option("--exact", help="Consider every token of the vocabulary, special ones excepted.")]
Force = Annotated[bool, typer.Option("--force", help="Go on where there are more than 200,000 passes or a billion cells.")]
Top = Annotated[int, typer.Option("--top", "-t", help="How many completions to show.")]
Positions = Annotated[
    str | None,
    typer.Option(
        "--positions",
        help="Tokens of a whole text to blank out, such as 3,4; the text's first token, usually \\[CLS], is 0.",
    ),
]
Targets = Annotated[
    str | None,
    typer.Option(
        "--targets", help="The words that belong in the blanks, with commas between them: shown, and measured by compare."
    ),
]
Alphabet = Annotated[
    str | None,
    typer.Option(
        "--alphabet",
        help="The only tokens that may stand in a blank: letters such as ACDEFGHIKLMNPQRSTVWY, words with commas between "
        "them, or a file of either; as many candidates as the limits allow.",
    ),
]
Figure = Annotated[
    Path | None, typer.Option("--figure", parser=path, metavar="PATH", help="Draw a figure to this file (png, pdf, svg).")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16, float16 or float64.")]
Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="A tensor of the checkpoint that the model has under another name; repeat."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (keys: docs/cli.md).")]


def arguments(given: dict[str, Any], **readers: Callable[[Any], object]) -> dict[str, Any]:
    """What a command was given, by name, as the function of its name takes it: what has a reader is read, --json left out."""
    readers = {"rename": read_renames, **readers}
    return {name: readers.get(name, _as_it_is)(value) for name, value in given.items() if name not in ("json", "as_json")}


def _as_it_is(value: object) -> object:
    return value


def read_texts(text: str | None, file: Path | None) -> str | list[str]:
    """The text itself; or a list, one per line that is not blank, of a file or of standard input (-)."""
    if (text is None) == (file is None):
        given = "TEXT and --file were both given" if file is not None else "no text was given"
        raise InputError(f"{given}: give a text, - for standard input, or --file with one text per line")
    if text is not None and text != "-":
        return text
    source = file or STANDARD_INPUT
    texts = list(plain_texts(source))
    if not texts:
        raise InputError(f"{told(source)!r} has no text: give one text per line")
    return texts


def read_numbers(name: str, kind: type, given: str | None) -> list[Any] | None:
    """ "3,4" as [3, 4]."""
    return None if given is None else numbers(name, given, kind)


read_positions = partial(read_numbers, "positions", int)


def read_words(words: str | None) -> list[str] | None:
    """ "red, green" as ["red", "green"]."""
    return None if words is None else [word.strip() for word in words.split(",")]


def read_allowed(allow: list[str] | None) -> dict[int, list[str]] | None:
    """["2=red,green"] as {2: ["red", "green"]}."""
    found: dict[int, list[str]] = {}
    for given in allow or []:
        blank, words = _blank_of("allow", given)
        if blank is None:
            raise InputError(f"allow {given!r} is not understood: give a blank's number and words, such as 2=red,green")
        found.setdefault(blank, []).extend(word.strip() for word in words.split(",") if word.strip())
    return found or None


def read_matches(match: list[str] | None) -> str | dict[int, str] | None:
    """["2=.*ing"] as {2: ".*ing"}; one expression without a number is for every blank."""
    found: dict[int, str] = {}
    for given in match or []:
        blank, pattern = _blank_of("match", given)
        found[blank or 0] = given if blank is None else pattern
    return found.get(0) if set(found) == {0} else found or None


def _blank_of(name: str, given: str) -> tuple[int | None, str]:
    """ "2=red" as (2, "red"); None for the number where there is none."""
    number, equals, rest = given.partition("=")
    if not equals or not number.strip().isdecimal():
        return None, given
    if len(number) > MOST_DIGITS:
        raise InputError(f"{name} names blank {number[:MOST_DIGITS]}..., which no text has: number blanks from 1")
    return int(number), rest


def read_renames(renames: list[str] | None) -> dict[str, str] | None:
    """["a=b", "c=d"] as {"a": "b", "c": "d"}."""
    if not renames:
        return None
    pairs = [(old.strip(), new.strip()) for old, _, new in (given.partition("=") for given in renames)]
    for given, (old, _) in zip(renames, pairs, strict=True):
        if not old or "=" not in given:
            raise InputError(f"rename {given!r} is not understood: give OLD=NEW, such as lm_head.decoder=cls.predictions.decoder")
        if [first for first, _ in pairs].count(old) > 1:
            raise InputError(f"rename names {old!r} twice: name each once")
    return dict(pairs)
