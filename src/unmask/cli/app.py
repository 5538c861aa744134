"""The command line: `unmask COMMAND`. Whatever the user can mend ends in one line on standard error and exit code 2, here.

A command is `unmask.cli.<name>.<name>`, loaded when it is called: the help of `unmask` needs its name and first line only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from unmask import __version__
from unmask.cli import process
from unmask.errors import InputError

COMMANDS = {
    "fill": "Fill the blanks of a text by their joint probability, beside what independent blanks would give.",
    "compare": "Put the joints of all constructions side by side: completions, entropy, dependence, faithfulness to the model.",
    "dependence": "Measure how much blanks, or tokens, depend on each other: the mutual information of every pair.",
    "mutants": "Log-probabilities of mutants of a sequence, the sum of their single effects, and the difference: epistasis.",
    "evaluate": "Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper.",
    "score": "Score sentences: pseudo-likelihoods, chain rules over orders, energies, and a normalised log-probability.",
    "sample": "Sample texts by Markov chains or decoders, and say how far to trust them.",
    "diagnose": "Acceptance and novelty, R-hat and effective sample sizes, repetition, and what they mean; writes figures too.",
    "train": "Train a masked language model from plain text, or with --objective causal a causal one.",
    "translate": "Translate with a model that `unmask train --parallel` has made: JSON lines, one per source.",
    "check": "Say what was understood of a model (tokenizer, mask, head, longest text, speed) and what looks wrong.",
    "serve": "Open a page on this machine that shows joints, dependence, chains and scores of a model.",
    "lab": "The theory of generative masked language models, computed exactly on small models.",
}
"""Each command, and the first line of its help."""


SEVERAL_VALUES = ("score", "joints", "positions", "targets", "answers", "forbid", "length", "mutations")
"""Options that take several values with commas between them."""


class ListsOnce(TyperCommand):
    """A command that refuses to be given a list of values in pieces, of which the parser would keep the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse what was given twice."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        names = [option.name for option in order if option.name in SEVERAL_VALUES and not option.multiple]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise InputError(f"--{twice} was given twice: give its values once, with commas between them")
        return super().parse_args(ctx, args)


def command(name: str) -> Any:
    """The command of this name, with its options."""
    module = import_module(f"unmask.cli.{name}")
    if name == "lab":
        return typer.main.get_command(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=ListsOnce)(getattr(module, name))
    return typer.main.get_command(alone)


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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, loaded now."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, command(name) if name in COMMANDS else found, rest

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


for _name, _says in COMMANDS.items():
    app.command(_name, help=_says)(lambda: None)


def main() -> None:
    """Run the command line and leave the process."""
    # Threads of torch that wait should sleep: spinning ones halve the speed on a machine with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="unmask")
