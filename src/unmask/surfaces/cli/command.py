"""From a signature to a command of cyclopts: its options, their help, and the names of its
arguments in messages.

The function itself checks the values, once, so that Python and the command line refuse the same
things in the same words.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import App, Group, Parameter

from unmask.common.border.declarations import description, summary
from unmask.common.border.marks import TakesMethod, kinds, mark
from unmask.common.border.options import (
    Option,
    arguments,
    options,
    refuse_conflicts_of_fields,
)
from unmask.common.errors import NameWriter, in_python, written_by
from unmask.surfaces.cli import process
from unmask.surfaces.cli.words import is_kind_of, item_type, parsing

JSON = Option(name="json", annotation=bool, default=False, help="Print JSON.", parameter="json")

NO_JSON = Parameter(
    accepts_keys=False,  # --allow.2 red
    json_dict=False,
    json_list=False,  # a text may begin with a bracket: [MASK]
    negative=(),  # --no-x, and --empty-x for lists
    consume_multiple=False,
    show_default=False,  # default_text writes it
    show_choices=False,
)
"""Ways to write a value that cyclopts would take by itself."""
APP: dict[str, Any] = {
    "help_format": "plaintext",
    "help_flags": ("--help", "-h"),
    "version_flags": (),
    "suppress_keyboard_interrupt": False,
    "default_parameter": NO_JSON,
}
"""Settings of all commands and groups of commands."""
METAVARS = {int: "INT", float: "NUMBER"}
METAVARS_OF_LISTS = {int: "3,4", float: "0.5,1", str: "A,B"}
MOST_CHOICES = 3
"""Choices that the help lists as the value's name; more are in the words of the help."""


def command(
    name: str,
    function: Callable[..., Any],
    run: Callable[[dict[str, Any]], Any],
    extra: Sequence[Option] = (),
    group: str = "unmask",
) -> App:
    """The command of a function.

    run     prints; called with the arguments that were typed, as the function takes them, and the
            values of `extra`
    extra   options that only the command line has, or has in another way than the function
    group   what precedes the command's name
    """
    listed = options_of_command(function, extra)
    of_extra = {option.name for option in extra}
    placed = [option.name for option in listed if option.positional]

    def call(*by_place: Any, **by_name: Any) -> Any:
        words = [word for word in by_place if word is not None]
        places = placed
        if by_name.get("file") is not None and len(words) < len(placed):
            places = placed[1:]  # the file stands for the first
        typed = dict(zip(places, words, strict=False)) | by_name
        given = {name: value for name, value in typed.items() if value is not None}
        process.begins(given.get("out"))
        flat = {name: value for name, value in given.items() if name not in of_extra}
        beside = {name: value for name, value in given.items() if name in of_extra}
        refuse_conflicts_of_fields(function, flat)
        return run(arguments(function, flat) | beside)

    # A text that has a place may also come from the extra option --file.
    has_file = "file" in of_extra
    write = writer(listed)
    parameters = [_parameter(option, option.positional and has_file, write) for option in listed]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # cyclopts would go through all parameters once more to write the usage.
    usage = _usage(f"{group} {name}", listed, has_file)
    app = App(name=name, help=_help(function), usage=usage, **APP)
    app.default(call)
    return app


def options_of_command(function: Callable[..., Any], extra: Sequence[Option]) -> list[Option]:
    """The options of a function and those of `extra`, which replace those of the same name."""
    by_name = {option.name: option for option in [*options(function), *extra]}
    return list(by_name.values())


def _usage(title: str, listed: Sequence[Option], has_file: bool) -> str:
    """The first line of the help: the options that must be given, and the text with a place.

    has_file   the first one may come from --file instead
    """
    words = [title]
    places: list[str] = []
    for option in listed:
        if option.positional:
            is_elsewhere = has_file and not places
            is_required = option.required and not is_elsewhere
            name = option.name.upper()
            if not is_required:
                name = f"[{name}]"
            places.append(name)
        elif option.required:
            words.append(f"{long_name(option.name)} {metavar(option)}")
    return " ".join([*words, "[OPTIONS]", *places])


def _help(function: Callable[..., Any]) -> str:
    """The paragraphs of a function's docstring, before its parameters, one line each."""
    paragraphs = [summary(function), *description(function).split("\n\n")]
    lines = [" ".join(paragraph.split()) for paragraph in paragraphs]
    return "\n\n".join(line for line in lines if line)


# ---- an option as cyclopts knows it ----


def _parameter(option: Option, is_elsewhere: bool, write: NameWriter) -> inspect.Parameter:
    """The option as a parameter of the function that cyclopts calls.

    is_elsewhere   the value may also come from another option, so this one is not required
    write          writes the names of other options in its help
    """
    read = parsing(option)
    names = []
    if not option.positional:
        names = [long_name(option.name), option.written.short]
    negative: tuple[str, ...] = ()
    if read.kind is bool and option.default is True:
        negative = (_negative(option.name),)
    placeholder = metavar(option)
    if read.kind is bool:  # a flag takes no value
        placeholder = ""
    shown = Parameter(
        name=[name for name in names if name] or None,
        converter=read.converter,
        n_tokens=read.words,
        allow_repeating=None if read.repeats else False,
        help=_help_of(option, write),
        metavar=placeholder,
        negative=negative,
        group=_group(option),
    )
    if option.positional:
        place: Any = inspect.Parameter.POSITIONAL_ONLY
    else:
        place = inspect.Parameter.KEYWORD_ONLY
    default = None
    if option.required and not is_elsewhere:
        default = inspect.Parameter.empty
    annotation: Any = Annotated[read.kind | None, shown]
    return inspect.Parameter(option.name, place, annotation=annotation, default=default)


def _help_of(option: Option, write: NameWriter) -> str:
    """The help of an option: its words, the methods that have it, the options that it goes with,
    its default.
    """
    readers = ""
    if option.readers:
        readers = f" [{', '.join(option.readers)}]"
    return option.help + readers + written_by(write, option.condition) + default_text(option)


def default_text(option: Option) -> str:
    """The default in words, where the help does not say it."""
    value = option.default
    if value is None or value is False or value in ((), "") or "[default:" in option.help:
        return ""
    if value is True:
        text = "yes"
    elif isinstance(value, tuple | list):
        text = ",".join(map(str, value))
    else:
        text = str(value)
    if option.written.typed is not None:
        text += f"; {option.written.typed} for texts that are typed"
    return f" [default: {text}]"


def _group(option: Option) -> Group:
    """The part of the help that an option stands in."""
    if option.positional:
        return Group("Input", sort_key=0)
    if option.loading:
        return Group("Model", sort_key=8)
    if option.readers:
        return Group(f"Of single methods of {long_name(option.parameter)}", sort_key=2)
    if isinstance(option.owner, type):
        return Group(summary(option.owner).rstrip("."), sort_key=3)
    return Group("Options", sort_key=1)


# ---- how the command line writes arguments ----


def long_name(name: str) -> str:
    """--max-length for max_length; --text for text_, which stands beside a text with a place."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def _negative(name: str) -> str:
    """--no-resume for resume."""
    return f"--no-{long_name(name).removeprefix('--')}"


def metavar(option: Option) -> str:
    """The value's name in the help, such as INT."""
    if option.written.metavar:
        return option.written.metavar
    if option.positional:
        return option.name.upper()
    if mark(option.annotation, TakesMethod) is not None:
        return "NAME"
    for kind in kinds(option.annotation):
        if kind in METAVARS:
            return METAVARS[kind]
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            return "|".join(choices) if len(choices) <= MOST_CHOICES else "NAME"
        if is_kind_of(kind, os.PathLike):
            return "PATH"
        if kind is not str and is_kind_of(kind, Sequence):
            return METAVARS_OF_LISTS.get(item_type(kind), "A,B")
    return "TEXT"


def writer(listed: Sequence[Option]) -> NameWriter:
    """How a command with these options writes the arguments that a message names.

    --max-length for max_length, TEXT for a text that has a place, --top 5 for a value, --force
    for the value True. A name that is no option of the command is written as in Python.
    """
    known: Mapping[str, Option] = {option.name: option for option in listed}

    def write(name: str, value: str | None) -> str:
        option = known.get(name)
        if option is None:
            return in_python(name, value)
        if option.positional:
            return name.upper() if value is None else shlex.quote(value)
        if value is None or value == "True":
            return long_name(name)
        if value == "False":
            return _negative(name)
        return f"{long_name(name)} {shlex.quote(value)}"

    return write
