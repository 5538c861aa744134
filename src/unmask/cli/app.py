"""The command line: `unmask COMMAND`. Errors that the user can correct end in one line on standard error and exit code 2, here.

A command is made from the signature of its function when it is called; the help of `unmask` needs the first lines only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError

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
    """The command of this name, with its options."""
    if name == LAB:
        return import_module("unmask.cli.lab").app()
    from unmask.cli import printing

    function = verb(name)
    texts = options(function)[0].name in ("text", "sequence", "texts")
    extra = [*([FILE] if texts else []), *([JSON] if name not in LINES else [])]
    return command(name, function, getattr(printing, name, None) or partial(printing.frame, name), extra)


def main_app(words: Sequence[str]) -> App:
    """`unmask`, with the command that is called; of the others, for the help, the first line."""
    about = "Explicit joint probabilities from a masked language model."
    app = App(name="unmask", help=about, **APP | {"version": f"unmask {__version__}", "version_flags": ("--version",)})
    called = next((word for word in words if not word.startswith("-")), None)
    names = (*VERBS, LAB)
    if called in names:
        app.command(made(called))
        return app
    if called is not None:
        near = FAMILIAR_COMMANDS.get(called) or next(iter(get_close_matches(called, names, n=1)), None)
        raise InputError(f"{called} is not a command: {f'use unmask {near}' if near else 'see unmask --help'}")
    for name in names:
        line = "The theory of generative masked language models, computed exactly." if name == LAB else summary(verb(name))
        app.command(App(name=name, help=line))
    return app


def called_function(words: Sequence[str]) -> Callable[..., Any] | None:
    """The function of the command that was typed."""
    names = [word for word in words if not word.startswith("-")]
    if names[:1] == [LAB]:
        return import_module("unmask.cli.lab").COMMANDS.get(names[1]) if names[1:] else None
    return verb(names[0]) if names and names[0] in VERBS else None


def run(words: Sequence[str]) -> int:
    """Run a command; its exit code."""
    with process.one_line_warnings():
        try:
            process.prepare()
            typed = [hidden(word) for word in words]
            code = main_app(words)(typed, exit_on_error=False, print_error=False, result_action="return_value")
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            return process.INTERRUPTED
        except (BrokenPipeError, SystemExit):  # rich leaves by SystemExit where it meets a broken pipe itself
            process.abandon_output()
            return process.NO_READER
        except Exception as error:
            if process.interrupted():
                return process.INTERRUPTED
            function = called_function(words)
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
    line = process.one_line(str(error).strip())
    if "specified multiple times" in line:
        return f"{line.split()[1]} was given twice: give it once, several values with commas between them"
    if function is None:
        return line
    word = line.partition("--")[2].split(" ")[0].partition("=")[0].strip('".:')
    help, known = f"see unmask {words[0]} --help", {option.name: option for option in options(function)}
    if line.startswith("Unused Tokens"):
        return f"{line.partition('[')[2].rstrip('].')} has no place here: give it with its option, {help}"
    if "nknown option" in line and (ours := known.get(FAMILIAR.get(word.replace("-", "_"), ""))):
        if ours.positional:
            return f"--{word} is not an option: give {ours.name.upper()} without a name, {help}"
        return f"{line.partition(' Did you mean')[0]} Did you mean --{ours.name.replace('_', '-')}?"
    if "requires an argument" in line and f"--{word}" not in words:
        without_place = words[1:2] if not any(option.positional for option in known.values()) else []
        values = [value for value in without_place if not value.startswith("-")]
        return f"--{word} is missing: give {f'--{word} {values[0]}' if values else 'it'}, {help}"
    return line if "nknown option" not in line or "Did you mean" in line else f"{line.rstrip('.')}: {help}"


def main() -> None:
    """Run the command line and leave the process."""
    # Threads of torch that wait should sleep: spinning ones halve the speed on a machine with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    code = run(sys.argv[1:])
    process.ends_with(code)
    sys.exit(code)
