"""Commands made from the tables of `unmask.options`: names, defaults and help are those of the rows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from unmask import checks
from unmask.cli import process
from unmask.errors import InputError
from unmask.options.elsewhere import misnamed
from unmask.options.kinds import Flag
from unmask.options.option import Options, Row

Run = Callable[[dict[str, Any]], None]
"""Runs a command: its argument has the options that were typed, by name, as the function of the verb takes them."""


def command(name: str, help: str, options: type[Options], run: Run) -> Any:
    """The command of a table of options."""
    rows = options.declared()

    def call(**typed: Any) -> None:
        given = [(row, typed[row.name]) for row in rows if typed[row.name] is not _left_out(row) and typed[row.name] != []]
        parsed = {row.name: row.kind.parse(row.name, value) for row, value in given}
        with process.reported(name, parsed.get("out")):
            run(parsed)

    parameters = [
        Parameter(row.name, Parameter.KEYWORD_ONLY, default=_left_out(row), annotation=_typed(row, options)) for row in rows
    ]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}

    class Command(TyperCommand):
        """Refuses an option with a list of values that is given twice, of which the parser would keep the last.

        Its help shows the rows of `Options.on_screen`.
        """

        table = options

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            try:
                ctx.meta["typed"], left, order = self.make_parser(ctx).parse_args(args=list(args))
            except Exception as error:
                if not hasattr(error, "possibilities"):  # only NoSuchOption has them; its module is the parser's own
                    raise
                verb = " ".join(ctx.command_path.split()[1:]) or name
                raise InputError(misnamed(verb, options, str(getattr(error, "option_name", "")))) from None
            names = [option.name for option in order]
            for row in rows:
                if row.kind.commas and names.count(row.name) > 1:
                    raise InputError(f"{row.flags[0]} was given twice: give its values once, with commas between them")
            try:
                return super().parse_args(ctx, args)
            except Exception as error:
                absent = getattr(error, "param", None) if type(error).__name__ == "MissingParameter" else None
                for row in rows:
                    if absent is not None and row.name == absent.name and not row.argument:
                        raise InputError(
                            f"{row.flags[0]} was not given: give {row.flags[0]} and its value ({row.command_help()})"
                        ) from None
                if not left or type(error).__name__ != "UsageError":  # wrong values are errors of its subclasses
                    raise
                example = f", such as {options.examples[0]}" if any(row.argument for row in rows) else ""
                raise InputError(
                    f"{checks.shown(' '.join(left))} is left over: put quotes around a text of several words{example}"
                ) from None

        def format_help(self, ctx: Any, formatter: Any) -> None:
            rows, lines = options.on_screen(ctx.meta.get("typed", {}))
            shown, asked = copy(self), self.get_help_option(ctx)
            if asked is not None:
                asked.metavar = ""
            shown.params = [param for param in self.params if param.name in [row.name for row in rows]]
            shown.epilog = _plain("\n\n".join(filter(None, [*lines, examples])))
            TyperCommand.format_help(shown, ctx, formatter)

    alone = typer.Typer(add_completion=False)
    said = "\n\n".join(filter(None, [help, options.more]))
    examples = "\n\n".join(["Examples:", *options.examples]) if options.examples else None
    alone.command(name, cls=Command, help=_plain(said))(call)
    return typer.main.get_command(alone)


def _left_out(row: Row) -> Any:
    """The parser's value of an option that is left out; the function has the defaults, except those of flags."""
    if row.required in ("command", "both"):
        return Parameter.empty
    return row.default if isinstance(row.kind, Flag) else None


def _typed(row: Row, table: type[Options]) -> Any:
    """The parameter of a row, for Typer."""
    typed = row.kind.typed if row.required in ("command", "both") else row.kind.typed | None
    default = f" [default: {row.shown_default}]" if row.shown_default else ""
    said = row.command_help() + table.readers(row.name, few=True) + default
    metavar = row.metavar or (row.name.upper() if row.argument else row.kind.metavar)
    shown: dict[str, Any] = {
        "help": _plain(said),
        "show_default": False,
        "metavar": "" if isinstance(row.kind, Flag) else metavar or None,
        "parser": getattr(row.kind, "word", None),
    }
    if row.argument:
        return Annotated[typed, typer.Argument(**shown)]
    return Annotated[typed, typer.Option(*row.flags, rich_help_panel=_plain(row.group), **shown)]


def _plain(text: str | None) -> str | None:
    """Brackets as they are, no markup."""
    return text.replace("[", "\\[") if text else None
