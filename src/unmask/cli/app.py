"""The command line: `unmask COMMAND`. Errors that the user can correct end in one line on standard error and exit code 2, here.

A command is built from its options when it is called: the help of `unmask` needs its name and first line only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from unmask import __version__
from unmask.cli import process
from unmask.cli.group import Group
from unmask.errors import InputError
from unmask.options import VERBS, table

PRINTED_BY = {
    "answers": ("fill", "compare", "dependence", "mutants", "check"),
    "runs": ("evaluate", "frontier", "train", "translate", "serve", "sample", "diagnose", "lab"),
    "score": ("score",),
}
"""The modules that call the function of a verb and print what it returns, by functions of the verbs' names."""


def command(name: str) -> Any:
    """The command of this name, with its options."""
    from unmask.cli.build import command as build

    module = next(module for module, verbs in PRINTED_BY.items() if name in verbs)
    found = getattr(import_module(f"unmask.cli.{module}"), name)
    return found() if name == "lab" else build(name, VERBS[name], table(name), found)


class OneLineErrors(Group):
    """A group of commands whose errors are one line: `error: what was given: what to do`."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command, and leave with its exit code; see `process`."""
        with process.one_line_warnings():
            code = self._run(args, **extra)
        if standalone_mode:
            process.ends_with(code)
            sys.exit(code)
        return code

    def _run(self, args: Sequence[str] | None, **extra: Any) -> int:
        try:
            process.prepare()
            code = super().main(args, standalone_mode=False, **extra)
            process.flush_output()
            return code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            return process.INTERRUPTED
        except (BrokenPipeError, SystemExit):  # the parser leaves by SystemExit where it meets a broken pipe itself
            process.abandon_output()
            return process.NO_READER
        except Exception as error:
            if process.interrupted():
                return process.INTERRUPTED
            # Errors of the option parser have their own format; a group called with no command has shown its help.
            line = error.format_message() if hasattr(error, "format_message") else process.explained(error)
            if line is None:
                raise
            if isinstance(error, OSError):
                process.abandon_output()
            if line and not process.is_reported_elsewhere(error):
                process.print_line(f"error: {process.one_line(line)}")
            return process.MISTAKE if line else 0

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, loaded now."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, command(name) if name in VERBS else found, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an end of file or a reader that has left is not an interrupt, as the parser takes it."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise InputError(process.explained(error)) from None
        except BrokenPipeError:
            process.abandon_output()
            raise typer.Exit(process.NO_READER) from None


app = typer.Typer(
    name="unmask",
    cls=OneLineErrors,
    help="Explicit joint probabilities from a masked language model.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"unmask {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name, _says in VERBS.items():
    app.command(_name, help=_says)(lambda: None)


def main() -> None:
    """Run the command line and leave the process."""
    # Threads of torch that wait should sleep: spinning ones halve the speed on a machine with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="unmask")
