"""The command line: `unmask COMMAND`. Errors that the user can correct end in one line on standard error and exit code 2, here.

A command is made from the signature of its function when it is called; the help of `unmask` needs the first lines only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, exceptions

from unmask import __version__
from unmask.cli import process
from unmask.cli.command import APP, JSON, command, hidden, in_options
from unmask.errors import InputError, ModelError
from unmask.signature import FAMILIAR, Option, options, summary
from unmask.verbs import VERBS, verb

LAB = "lab"
FAMILIAR_COMMANDS = {"ppl": "evaluate", "perplexity": "evaluate", "generate": "sample", "predict": "fill", "pll": "score"}
FILE = Option("file", Path | None, None, "Texts from a file instead of TEXT, one per line or FASTA; - is standard input.", "file")
LINES = ("translate", "serve")
"""Commands without --json: they print JSON lines, or nothing that JSON could hold."""


def made(name: str) -> App:
    """The command of a verb, with its options."""
    from unmask.cli import printing

    function = verb(name)
    texts = options(function)[0].name in ("text", "sequence", "texts")
    extra = [*([FILE] if texts else []), *([JSON] if name not in LINES else [])]
    return command(name, function, getattr(printing, name, None) or partial(printing.frame, name), extra)


def parsed(words: Sequence[str]) -> tuple[App, Callable[..., Any] | None]:
    """`unmask`, with the command that is called, and its function; of the others, for the help, the first line."""
    about = "Explicit joint probabilities from a masked language model."
    app = App(name="unmask", help=about, **APP | {"version": f"unmask {__version__}", "version_flags": ("--version",)})
    called, study, *_ = [*(word for word in words if not word.startswith("-")), "", ""]
    if called == LAB:
        from unmask.cli import lab

        app.command(lab.app())
        return app, lab.COMMANDS.get(study)
    if called in VERBS:
        app.command(made(called))
        return app, verb(called)
    if called:
        near = FAMILIAR_COMMANDS.get(called) or next(iter(get_close_matches(called, (*VERBS, LAB), n=1)), None)
        raise InputError(f"{called} is not a command: {f'use unmask {near}' if near else 'see unmask --help'}")
    for name in VERBS:
        app.command(App(name=name, help=summary(verb(name))))
    app.command(App(name=LAB, help="The theory of generative masked language models, computed exactly."))
    return app, None


def run(words: Sequence[str]) -> int:
    """Run a command; its exit code."""
    function = None
    with process.one_line_warnings():
        try:
            process.prepare()
            app, function = parsed(words)
            typed = [hidden(word) for word in words]
            code = app(typed, exit_on_error=False, print_error=False, result_action="return_value")
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            process.report_interrupt()
            return process.INTERRUPTED
        except (BrokenPipeError, SystemExit):  # rich leaves by SystemExit where it meets a broken pipe itself
            process.abandon_output()
            return process.NO_READER
        except BaseException as error:  # a panic in Rust is no Exception
            if process.interrupted():  # which a library turned into another error
                process.report_interrupt()
                return process.INTERRUPTED
            line = _misread(error, words, function) if isinstance(error, CycloptsError) else process.explained(error)
            if line is None:
                raise
            if isinstance(error, OSError):
                process.abandon_output()
            # of the processes that torchrun started here, which all have the same mistake, the first prints it
            if process.rank(local=True) == 0 or not isinstance(error, InputError | ModelError):
                line = process.one_line(line)
                process.print_line(f"error: {in_options(line, function) if function else line}")
            return process.MISTAKE


def _misread(error: CycloptsError, words: Sequence[str], function: Callable[..., Any] | None) -> str:
    """The line of an error of the parser; a familiar name of another tool is answered with ours."""
    line, help = process.one_line(str(error).strip()), f"see unmask {words[0]} --help"
    if isinstance(error, exceptions.RepeatArgumentError):
        return f"{error.token.keyword} was given twice: give it once, several values with commas between them"
    if function is None:
        return line
    if isinstance(error, exceptions.UnusedCliTokensError):
        return f"{', '.join(map(repr, error.unused_tokens or ()))} has no place here: give it with its option, {help}"
    known = {option.name: option for option in options(function)}
    if isinstance(error, exceptions.UnknownOptionError):
        word = (error.token.keyword or error.token.value).partition("=")[0]
        ours = known.get(FAMILIAR.get(word.lstrip("-").replace("-", "_"), ""))
        if ours is not None and ours.positional:
            return f"{word} is not an option: give {ours.name.upper()} without a name, {help}"
        if ours is not None:
            return f"Unknown option: {word}. Did you mean --{ours.name.replace('_', '-')}?"
        return line if "Did you mean" in line else f"{line.rstrip('.')}: {help}"
    if isinstance(error, exceptions.MissingArgumentError) and error.argument is not None and error.argument.name not in words:
        placed = any(option.positional for option in known.values())
        value = next((f"{error.argument.name} {word}" for word in words[1:2] if not placed and not word.startswith("-")), "it")
        return f"{error.argument.name} is missing: give {value}, {help}"
    return line
