"""The command line: `unmask COMMAND`. Errors that the user can correct end in one line on
standard error and exit code 2, here.

A command is made from the signature of its function when it is called; the help of `unmask`
needs the first lines only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from os import PathLike
from typing import Annotated, Any

from cyclopts import App, CycloptsError, exceptions

from unmask import __version__
from unmask.common.border.declarations import summary
from unmask.common.border.marks import Written
from unmask.common.border.names import nearest
from unmask.common.border.options import Option, options
from unmask.common.errors import InputError
from unmask.surfaces.cli import process
from unmask.surfaces.cli.command import APP, JSON, command, hidden, in_options
from unmask.verbs import VERBS, verb

LAB = "lab"
FAMILIAR_COMMANDS = {
    "ppl": "evaluate",
    "perplexity": "evaluate",
    "generate": "sample",
    "predict": "fill",
    "pll": "score",
}
FILE_HELP = (
    "Texts from this file: one per line, .jsonl, .csv or .tsv with a column text, or FASTA; - is"
    " standard input."
)
FILE = Option("file", PathLike[str] | None, None, FILE_HELP, "file")
TEXT_HELP = "A text that looks like the name of a file."
SEVERAL_TEXTS = Annotated[list[str] | None, Written(metavar="TEXT", repeat=True)]
TEXT = Option("text_", str | None, None, TEXT_HELP, "text_")
LINES = ("translate", "serve")
"""Commands without --json: they print JSON lines, or nothing that JSON could hold."""


def verb_command(name: str) -> App:
    """The command of a verb, with its options."""
    from unmask.surfaces.cli import printing

    function = verb(name)
    several = options(function)[0].name == "texts"
    texts = several or hasattr(function, "of_text")
    text = replace(TEXT, annotation=SEVERAL_TEXTS) if several else TEXT
    extra = [*([FILE, text] if texts else []), *([JSON] if name not in LINES else [])]
    return command(
        name, function, getattr(printing, name, None) or partial(printing.frame, name), extra
    )


def called(words: Sequence[str]) -> tuple[str, Callable[..., Any] | None]:
    """The name of the command that is called, and its function."""
    name, study, *_ = [*(word for word in words if not word.startswith("-")), "", ""]
    if name == LAB:
        from unmask.surfaces.cli import lab

        return name, lab.COMMANDS.get(study)
    return name, verb(name) if name in VERBS else None


def parsed(words: Sequence[str]) -> App:
    """`unmask`, with the command that is called; of the others, for the help, the first line."""
    about = "Explicit joint probabilities from a masked language model."
    app = App(
        name="unmask",
        help=about,
        **APP | {"version": f"unmask {__version__}", "version_flags": ("--version",)},
    )
    name, _ = called(words)
    if name == LAB:
        from unmask.surfaces.cli import lab

        app.command(lab.app())
    elif name in VERBS:
        app.command(verb_command(name))
    elif name:
        near = FAMILIAR_COMMANDS.get(name) or next(
            iter(get_close_matches(name, (*VERBS, LAB), n=1)), None
        )
        raise InputError(
            f"{name} is not a command: {f'use unmask {near}' if near else 'see unmask --help'}"
        )
    else:
        for name in VERBS:
            app.command(App(name=name, help=summary(verb(name))))
        app.command(
            App(name=LAB, help="The theory of generative masked language models, computed exactly.")
        )
    return app


def run(words: Sequence[str]) -> int:
    """Run a command; its exit code."""

    def work() -> Any:
        typed = [hidden(word) for word in words]
        return parsed(words)(
            typed, exit_on_error=False, print_error=False, result_action="return_value"
        )

    def line_of(error: BaseException) -> str | None:
        _, function = called(words)
        line = (
            _misread(error, words, function)
            if isinstance(error, CycloptsError)
            else process.explained(error)
        )
        return in_options(line, function) if line and function else line

    with process.one_line_warnings():
        return process.guarded(work, line_of)


def _misread(
    error: CycloptsError, words: Sequence[str], function: Callable[..., Any] | None
) -> str:
    """The line of an error of the parser: the option that was meant, or where to look."""
    line, use = process.one_line(str(error)).rstrip(",. "), "see unmask --help"
    if function is None:
        return f"{line}: {use}"
    use, known = (
        f"see unmask {words[0]} --help",
        {option.name: option for option in options(function)},
    )
    if isinstance(error, exceptions.RepeatArgumentError):
        line, use = (
            f"{error.token.keyword} was given twice",
            "give it once, several values with commas between them",
        )
    elif isinstance(error, exceptions.UnusedCliTokensError):
        line, use = (
            f"no place for {str(error.unused_tokens)[1:-1]}",
            f"put a text in quotes, a value after its option, {use}",
        )
    elif isinstance(error, exceptions.UnknownOptionError):
        word = (error.token.keyword or error.token.value).partition("=")[0]
        line = f"{word} is not an option"
        if (near := nearest(word.lstrip("-").replace("-", "_"), known)) is not None:
            name = near.replace("_", "-")
            use = (
                f"give {name.upper()} without a name, {use}"
                if known[near].positional
                else f"did you mean --{name}?"
            )
    elif (
        isinstance(error, exceptions.MissingArgumentError)
        and error.argument is not None
        and error.argument.name not in words
    ):
        missing, placed = error.argument.name, any(option.positional for option in known.values())
        value = next(
            (f" {word}" for word in words[1:2] if not placed and not word.startswith("-")), ""
        )
        line, use = f"{missing} is missing", f"give {missing}{value}, {use}"
    return f"{line}: {use}"
