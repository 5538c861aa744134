"""The command line: `unmask COMMAND`. Whatever the user can mend ends in one line on standard error and exit code 2, here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmask import __version__
from unmask.cli import lab, process
from unmask.cli.check import check
from unmask.cli.compare import compare
from unmask.cli.dependence import dependence
from unmask.cli.diagnose import diagnose
from unmask.cli.evaluate import evaluate
from unmask.cli.fill import fill
from unmask.cli.mutants import mutants
from unmask.cli.sample import sample
from unmask.cli.score import score
from unmask.cli.train import train
from unmask.errors import InputError


class OneLineErrors(TyperGroup):
    """A group of commands whose errors are one line: `error: what was given: what to do`."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command, and leave with its exit code; see `process`."""
        with process.one_line_warnings():
            code = self._run(args, **extra)
        if standalone_mode:
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
            # Errors of the option parser have a format of their own; a group called with no command has shown its help.
            line = error.format_message() if hasattr(error, "format_message") else process.explained(error)
            if line is None:
                raise
            if isinstance(error, OSError):
                process.abandon_output()
            if line:
                process.tell(f"error: {process.one_line(line)}")
            return process.MISTAKE if line else 0

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an end of file or of the reader is not the end of the user's patience, as the parser thinks."""
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


app.command()(fill)
app.command()(compare)
app.command()(dependence)
app.command()(mutants)
app.command()(evaluate)
app.command()(score)
app.command()(sample)
app.command()(diagnose)
app.command()(train)
app.command()(check)
app.add_typer(lab.app, name="lab")


def main() -> None:
    """Run the command line and leave the process."""
    # Threads of torch that wait should sleep: spinning ones halve the speed on a machine with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="unmask")
