"""Errors of the parser, in our words: words that no option takes, options without a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cyclopts import CycloptsError, exceptions

from unmask.common.border.names import Meant, meant_by
from unmask.common.border.options import Option
from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.surfaces.cli import process
from unmask.surfaces.cli.command import long_name
from unmask.surfaces.cli.words import as_typed


def line_of_misreading(
    error: CycloptsError, command: str, words: Sequence[str], listed: Sequence[Option]
) -> InputError:
    """What the user typed wrongly, and the option that was meant, or where to look.

    command   what follows `unmask`: "fill", "lab masking"
    words     of the whole command line
    listed    the options of the command
    """
    help_of_command = f"see unmask {command} --help"
    if isinstance(error, exceptions.RepeatArgumentError):
        return InputError(
            f"{error.token.keyword} was given twice",
            use="give it once, several values with commas between them",
        )
    if isinstance(error, exceptions.UnusedCliTokensError):
        unused = ", ".join(repr(as_typed(word)) for word in error.unused_tokens or ())
        return InputError(
            f"no place for {unused}",
            use=f"put a text in quotes, a value after its option, {help_of_command}",
        )
    if isinstance(error, exceptions.UnknownOptionError):
        return _unknown_option(error, command, listed)
    if isinstance(error, exceptions.MissingArgumentError):
        missing = _option(error, listed)
        if missing is not None:
            return _missing(error, missing, words, listed, help_of_command)
    if isinstance(error, exceptions.CoercionError):
        # Of a flag: words that do not fit another type stay texts, see words.py.
        flag = _option(error, listed)
        if flag is not None and error.token is not None:
            return InputError(
                f"{shown(error.token.value)} is not valid",
                argument=flag.name,
                use=f"give {argument_name(flag.name)} without a value",
            )
    line = process.one_line(str(error)).rstrip(",. ")
    return InputError(line, use=help_of_command)


def _option(error: CycloptsError, listed: Sequence[Option]) -> Option | None:
    """The option that an error is about."""
    if error.argument is None:
        return None
    name = error.argument.field_info.name
    return next((option for option in listed if option.name == name), None)


def _unknown_option(
    error: exceptions.UnknownOptionError, command: str, listed: Sequence[Option]
) -> InputError:
    """The error of a name that no option has; it suggests another command, or the nearest."""
    typed = as_typed(error.token.keyword or error.token.value)
    word, _, _ = typed.partition("=")
    name = word.lstrip("-").replace("-", "_")
    known = {option.name: option for option in listed}
    meant = meant_by(command.replace("-", "_"), name, known)
    help_of_command = f"see unmask {command} --help"
    if meant is None:
        return InputError(f"{word} is not an option", use=help_of_command)
    use = _on_the_command_line(meant, name, help_of_command, known)
    return InputError(f"{word} is not an option", use=use)


def _on_the_command_line(
    meant: Meant, name: str, help_of_command: str, known: Mapping[str, Option]
) -> str:
    """What to give in the place of an option `name`, on the command line."""
    if meant.advice:
        return meant.advice
    if meant.verb:
        command = meant.verb.replace("_", "-")
        if meant.argument in ("", name):
            return f"use unmask {command}"
        return f"use {long_name(meant.argument)} of unmask {command}"
    if known[meant.argument].positional:
        return f"give {argument_name(meant.argument)} without a name, {help_of_command}"
    return f"did you mean {argument_name(meant.argument, meant.value)}?"


def _missing(
    error: exceptions.MissingArgumentError,
    missing: Option,
    words: Sequence[str],
    listed: Sequence[Option],
    help_of_command: str,
) -> InputError:
    """The error of an option that is required, or that was given without its value."""
    name = argument_name(missing.name)
    if error.keyword is not None:
        return InputError(
            f"{error.keyword} has no value", use=f"give one after it, {help_of_command}"
        )
    has_place = any(option.positional for option in listed)
    value = ""
    if not has_place and len(words) > 1 and not words[1].startswith("-"):
        value = f" {words[1]}"  # the user gave it a place
    return InputError(f"{name} is missing", use=f"give {name}{value}, {help_of_command}")
