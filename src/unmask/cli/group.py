"""A group of commands: `unmask`, and `unmask lab`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from unmask.errors import InputError


class Group(TyperGroup):
    """Answers an unknown command with the one that was meant; the options in its help take no values, and show none."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from unmask.options.elsewhere import command_for

            found = command_for(args[0], self.commands, alone=ctx.parent is None)
            use = f"use {ctx.command_path} {found}" if found else f"see {ctx.command_path} --help"
            raise InputError(f"{args[0]} is not a command: {use}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, without types of yes or no."""
        for param in self.get_params(ctx):
            param.metavar = ""
        super().format_help(ctx, formatter)
