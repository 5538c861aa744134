"""The command line: `unmask COMMAND`. Every mistake of the user ends in one line on standard error and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmask import __version__
from unmask.cli import lab
from unmask.cli.compare import compare
from unmask.cli.dependence import dependence
from unmask.cli.diagnose import diagnose
from unmask.cli.evaluate import evaluate
from unmask.cli.fill import fill
from unmask.cli.sample import sample
from unmask.cli.train import train
from unmask.errors import UnmaskError


class OneLineErrors(TyperGroup):
    """A group of commands whose errors are one line: `error: what was given, what to do`."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run, and leave with 0, 2 for the user's mistakes, 130 for an interrupt."""
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except UnmaskError as error:
            code = _fail(str(error))
        except typer.Abort:
            code = 130
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            message = error.format_message()
            code = _fail(message) if message else 0  # a group called with no command has shown its help
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _fail(message: str) -> int:
    line = " ".join("".join(c if c.isprintable() or c.isspace() else repr(c)[1:-1] for c in message).split())
    typer.echo(f"error: {line}", err=True)
    return 2


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
app.command()(evaluate)
app.command()(sample)
app.command()(diagnose)
app.command()(train)
app.add_typer(lab.app, name="lab")


def main() -> None:
    """The console script."""
    # Threads of torch that wait should sleep: spinning ones halve the speed on a machine with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="unmask")
