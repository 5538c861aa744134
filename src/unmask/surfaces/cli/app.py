"""The command line: `unmask COMMAND`. Errors that the user can correct end in one line on
standard error and exit code 2, here.

A command is made from the signature of its function when it is called; the help of `unmask`
needs the first lines only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from os import PathLike
from typing import Annotated, Any, NamedTuple

from cyclopts import App, CycloptsError

from unmask import __version__
from unmask.common.border.marks import Written
from unmask.common.border.options import Option, options
from unmask.common.errors import InputError, in_python
from unmask.surfaces.cli import process
from unmask.surfaces.cli.command import APP, JSON, command, options_of_command, writer
from unmask.surfaces.cli.misread import line_of_misreading
from unmask.surfaces.cli.own_methods import bring_own_methods
from unmask.surfaces.cli.words import with_stand_ins
from unmask.verbs import VERBS, first_lines, verb

LAB = "lab"
FORMAT = "format"
"""The argument of verbs that write rows."""
FAMILIAR_COMMANDS = {
    "ppl": "evaluate",
    "perplexity": "evaluate",
    "predict": "fill",
    "pll": "score",
    "rank": "assay",
    "blimp": "minimal-pairs",
    "pairs": "minimal-pairs",
}
FILE = Option(
    name="file",
    annotation=PathLike[str] | None,
    default=None,
    help="Texts from this file: one per line, .jsonl, .csv or .tsv with a column text, or FASTA; -"
    " is standard input.",
    parameter="file",
)
FILE_OF_ONE = replace(
    FILE, help="The sequence from this file: a line, or FASTA; - is standard input."
)
TEXT = Option(
    name="text_",
    annotation=str | None,
    default=None,
    help="A text that looks like the name of a file.",
    parameter="text_",
)
SEVERAL_TEXTS = Annotated[list[str] | None, Written(metavar="TEXT", repeat=True)]
WITHOUT_JSON = ("serve",)
"""They print nothing that JSON could hold."""


def command_name(verb: str) -> str:
    """How the command line writes the name of a verb: minimal-pairs for minimal_pairs."""
    return verb.replace("_", "-")


OF_COMMANDS = {command_name(name): name for name in VERBS}
"""The verb of each command."""


class Called(NamedTuple):
    """The command that the user calls.

    name       what follows `unmask`: "fill", "lab masking"
    function   what it calls
    extra      options that only the command line has, or has in another way
    """

    name: str
    function: Callable[..., Any]
    extra: tuple[Option, ...]


def called(words: Sequence[str]) -> Called | None:
    """The command that is called; None for no command, an unknown one, and `lab` alone."""
    names = [word for word in words if not word.startswith("-")]
    if not names:
        return None
    if names[0] in OF_COMMANDS:
        return _of_verb(OF_COMMANDS[names[0]])
    if names[0] == LAB and len(names) > 1:
        from unmask.surfaces.cli import lab

        study = names[1]
        if study in lab.COMMANDS:
            return Called(name=f"{LAB} {study}", function=lab.COMMANDS[study], extra=lab.EXTRA)
    return None


def _of_verb(name: str) -> Called:
    """The command of a verb: it may have texts from a file, and print JSON."""
    function = verb(name)
    takes_several_texts = options(function)[0].name == "texts"
    extra = [_printed(option) for option in options(function) if option.name == FORMAT]
    if takes_several_texts:
        extra += [FILE, replace(TEXT, annotation=SEVERAL_TEXTS)]
    elif hasattr(function, "of_text"):
        extra += [FILE, TEXT]
    elif options(function)[0].name == "sequence":
        extra.append(FILE_OF_ONE)
    if name not in WITHOUT_JSON:
        extra.append(JSON)
    return Called(name=command_name(name), function=function, extra=tuple(extra))


def _printed(option: Option) -> Option:
    """The format of a verb's file as the option of a command, which prints rows in it, too."""
    of_rows = " Without a folder, rows are printed in it: jsonl or csv."
    return replace(option, help=option.help + of_rows, only=None)


def verb_command(name: str, words: Sequence[str] = ()) -> App:
    """The command of a verb, with its options, and those of the methods of own code that the words
    name.
    """
    one = _of_verb(name)
    bring_own_methods(words, one.function, one.extra)

    def prints(typed: dict[str, Any]) -> Any:
        from unmask.surfaces.cli import printing  # the help of a command prints no result

        if FORMAT in signature(one.function).parameters:
            return printing.rows_or_result(name, typed)
        if hasattr(one.function, "of_text"):
            return printing.answers(name, typed)
        if FILE_OF_ONE in one.extra:
            return printing.with_one_text(name, typed)
        if options(one.function)[0].name == printing.TEMPLATE:
            return printing.with_template(name, typed)
        return printing.one_result(name, typed)

    return command(one.name, one.function, prints, one.extra)


def parsed(words: Sequence[str]) -> App:
    """`unmask`, with the command that is called; of the others, for the help, the first line."""
    settings = {**APP, "version": f"unmask {__version__}", "version_flags": ("--version",)}
    about = "Explicit joint probabilities from a masked language model."
    app = App(name="unmask", help=about, **settings)
    name = next((word for word in words if not word.startswith("-")), "")
    if name == LAB:
        from unmask.surfaces.cli import lab

        app.command(lab.app())
    elif name in OF_COMMANDS:
        app.command(verb_command(OF_COMMANDS[name], words))
    elif name:
        raise _no_command(name)
    else:
        for one, first_line in first_lines().items():
            app.command(App(name=command_name(one), help=first_line))
        about_lab = "The theory of generative masked language models, computed exactly."
        app.command(App(name=LAB, help=about_lab))
    return app


def _no_command(name: str) -> InputError:
    """The error of a command that is none; it suggests what may be meant."""
    near = FAMILIAR_COMMANDS.get(name)
    if near is None:
        close = get_close_matches(name, (*OF_COMMANDS, LAB), n=1)
        near = close[0] if close else None
    use = "see unmask --help" if near is None else f"use unmask {near}"
    return InputError(f"{name} is not a command", use=use)


def run(words: Sequence[str]) -> int:
    """Run a command; its exit code."""

    def work() -> Any:
        app = parsed(words)
        return app(
            with_stand_ins(words),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )

    def write(name: str, value: str | None) -> str:
        one = called(words)
        if one is None:
            return in_python(name, value)
        return writer(options_of_command(one.function, one.extra))(name, value)

    def line_of(error: BaseException) -> str | None:
        if not isinstance(error, CycloptsError):
            return process.explained(error, write)
        one = called(words)
        if one is None:
            return f"{process.one_line(str(error)).rstrip(',. ')}: see unmask --help"
        listed = options_of_command(one.function, one.extra)
        return line_of_misreading(error, one.name, words, listed).written(write)

    with process.one_line_warnings(write):
        return process.guarded(work, line_of)
