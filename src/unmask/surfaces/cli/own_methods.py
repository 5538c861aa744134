"""Methods of the user's own code, and of installed packages, on the command line:

    unmask sample --kernel my.py:Mine --strength 2

`--strength` is a field of the class, so it is an option of this command. The words are therefore
searched for such methods before the parser is made, and the options of their classes join those
of the command, for its help, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from unmask.common.border.declarations import hints
from unmask.common.border.marks import TakesMethod, comma_separated, mark, resolved
from unmask.common.border.options import Option, options
from unmask.common.errors import InputError, argument_name
from unmask.common.methods.own_code import first_line_of, names_code
from unmask.common.methods.registry import OfOtherKind, Registry
from unmask.surfaces.cli.command import long_name
from unmask.surfaces.cli.words import parsing

END_OF_OPTIONS = "--"


def bring_own_methods(
    words: Sequence[str], function: Callable[..., Any], extra: Sequence[Option]
) -> None:
    """Load the methods of own code that the words of a command name, so that their options are
    options of the command.

    Raises InputError, one line, for a file, a class or an option that cannot be used.

    function   what the command calls
    extra      options that only the command line has
    """
    for option in options(function):
        takes = mark(option.annotation, TakesMethod)
        if takes is None:
            continue
        registry = resolved(takes.registry)
        if not isinstance(registry, Registry):
            continue
        for value in _values(words, option):
            names = comma_separated(value) if takes.several else [value.strip()]
            for name in names:
                if name in registry:
                    continue
                if registry.is_elsewhere(name):
                    raise _of_other_command(name, option.name, registry)
                if names_code(name) or registry.entry_of(name) is not None:
                    others = [*options(function), *extra] if takes.options else []
                    _bring(name, option.name, registry, others)


def _of_other_command(name: str, parameter: str, registry: Registry) -> InputError:
    """The error of a method that another command takes. It comes before the parser: the options of
    the method are none of this command.
    """
    other = registry.elsewhere
    assert other is not None
    kind = resolved(other.registry).kind
    return InputError(
        f"{name} is a {kind}, and no {registry.kind}",
        argument=parameter,
        use=f"use unmask {long_name(other.verb)[2:]} {long_name(other.argument)} {name}",
    )


def _values(words: Sequence[str], option: Option) -> Iterator[str]:
    """The values of an option, before the parser knows what the words are."""
    names = [name for name in (long_name(option.name), option.written.short) if name]
    for place, word in enumerate(words):
        if word == END_OF_OPTIONS:
            return
        for name in names:
            if word == name and place + 1 < len(words):
                yield words[place + 1]
            elif word.startswith(f"{name}="):
                yield word.removeprefix(f"{name}=")


def _bring(name: str, parameter: str, registry: Registry, others: Sequence[Option]) -> None:
    """Load one method of own code for a parameter.

    others   the options of the command that those of the method stand beside; none where the
             command takes methods without their options
    """
    try:
        registry.taken(parameter, name)
    except OfOtherKind:
        raise _of_other_command(name, parameter, registry) from None
    registry.bring_installed(parameter, name)
    cls = registry.brought.get(name)
    if cls is None:  # an object, or a plain function: it has no options
        return
    try:
        _refuse_clash(name, parameter, cls, others)
    except InputError:
        del registry.brought[name]
        raise
    options.cache_clear()  # the command has more options now


def _refuse_clash(name: str, parameter: str, cls: Any, others: Sequence[Option]) -> None:
    """Refuse an own class whose option has the name of another one of the command.

    Methods of one kind may share an option: it is one option of the command then, and its words
    are read in one way.
    """
    known = {option.name: option for option in others}
    annotations = _annotations(name, parameter, cls)
    for field in fields(cls):
        other = known.get(field.name)
        if other is None:
            continue
        way_out = "give the option another name in the class"
        is_of_this_kind = other.parameter == parameter and other.name != parameter
        if not is_of_this_kind:
            raise InputError(
                f"{name} has an option {argument_name(field.name)}, and so has this command",
                argument=parameter,
                use=way_out,
            )
        own = Option(
            name=field.name,
            annotation=annotations[field.name],
            default=field.default,
            help="",
            parameter=parameter,
        )
        if parsing(own).kind != parsing(other).kind:
            readers = " and ".join(other.readers)
            raise InputError(
                f"the option {argument_name(field.name)} of {name} is of another type than that"
                f" of {readers}",
                argument=parameter,
                use=way_out,
            )


def _annotations(name: str, parameter: str, cls: Any) -> dict[str, Any]:
    """The types of the options of an own class; they are texts until they are evaluated."""
    try:
        return hints(cls)
    except Exception as error:
        raise InputError(
            f"the types of the options of {name} cannot be read ({first_line_of(error)})",
            argument=parameter,
            use="correct them, or import their names",
        ) from None
