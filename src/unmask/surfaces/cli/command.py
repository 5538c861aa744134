"""From a signature to a command: cyclopts parses words and prints the help, and
`unmask.common.border` says what the words mean.

Every option is read as text and turned into a value by its type: 3,4 is a list, 2=red,green an
item of a mapping. The function itself checks the value, once, so that Python and the command
line refuse the same things in the same words.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import App, Group, Parameter

from unmask.common.border.declarations import description, summary
from unmask.common.border.marks import Loaded, TakesMethod, kinds, mark
from unmask.common.border.options import Option, arguments, options
from unmask.common.errors import InputError
from unmask.surfaces.cli import process

JSON = Option("json", bool, False, "Print JSON.", "json")
APP: dict[str, Any] = {
    "help_format": "plaintext",
    "help_flags": ("--help", "-h"),
    "version_flags": (),
    "suppress_keyboard_interrupt": False,
}
"""Settings of all commands and groups of commands."""
NUMBERS = {int: "INT", float: "NUMBER"}
DASH = "\0"
"""Stands for the dash of a word that cyclopts would take for an option: standard input (-), and
numbers such as -0.2:0.2.
"""


def command(
    name: str,
    function: Callable[..., Any],
    run: Callable[[dict[str, Any]], Any],
    extra: Sequence[Option] = (),
) -> App:
    """The command of a function: its options, and those that only the command line has (`extra`).

    run   prints; called with the arguments that were typed, as the function takes them, and the
          values of `extra`
    """
    listed, extra_names = [*options(function), *extra], {option.name for option in extra}
    placed = [option.name for option in listed if option.positional]
    paragraphs = [summary(function), *description(function).split("\n\n")]
    app = App(
        name=name, help="\n\n".join(" ".join(text.split()) for text in paragraphs if text), **APP
    )

    def call(*words: Any, **named: Any) -> Any:
        typed = dict(zip(placed, words, strict=False)) | named
        values = {
            one.name: value(one, typed[one.name])
            for one in listed
            if typed.get(one.name) is not None
        }
        for one in listed if "file" not in extra_names else ():
            if one.positional and one.required and one.name not in values:
                raise InputError(
                    f"{_metavar(one)} is missing: give {_metavar(one)}, see unmask {name} --help"
                )
        flat = {name: one for name, one in values.items() if name not in extra_names}
        process.begins(name, values.get("out"))
        return run(
            arguments(function, flat)
            | {name: one for name, one in values.items() if name in extra_names}
        )

    parameters = [_parameter(option) for option in listed]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.default(call)
    return app


def hidden(word: str) -> str:
    """The word as cyclopts gets it."""
    return DASH + word[1:] if word == "-" or re.match(r"-\.?\d", word) else word


def in_options(line: str, function: Callable[..., Any]) -> str:
    """A message about arguments of Python in the words of a command: --max-length for
    max_length, --force for force=True.
    """
    names = sorted(
        (option.name for option in options(function) if not option.positional),
        key=len,
        reverse=True,
    )
    plain, compound = "|".join(names), "|".join(name for name in names if "_" in name) or "$^"
    pattern = (
        rf"^(?:{plain})(?= )|(?<=leave out"
        rf" )(?:{plain})\b|(?<![\w/.'\"=-])(?:{compound})(?![\w/.'\"=-])"
    )
    values = rf"(?<![\w/.'\"=-])({plain})=(?:True|\.\.\.|(\d+))"
    line = re.sub(
        values, lambda given: f"--{given[1].replace('_', '-')} {given[2] or ''}".rstrip(), line
    )
    return re.sub(pattern, lambda match: f"--{match[0].replace('_', '-')}", line)


def _parameter(option: Option) -> inspect.Parameter:
    """The option as cyclopts reads it: text, several texts, or a flag."""
    written, long = (
        option.written,
        f"--{option.name.rstrip('_').replace('_', '-')}",
    )  # text_: beside a TEXT by place
    types = kinds(option.annotation)
    repeats = written.repeat or any(
        _is(kind, Mapping) for kind in types
    )  # several times, or all words that are left
    several: Any = tuple.__class_getitem__((str,) * written.words)
    typed: Any = (
        bool
        if types[0] is bool
        else several
        if written.words > 1
        else list[str]
        if repeats
        else str
    )
    shown = Parameter(
        name=None if option.positional else [long, *([written.short] if written.short else [])],
        help=option.help
        + (f" [{', '.join(option.readers)}]" if option.readers else "")
        + default_text(option),
        metavar="" if typed is bool else _metavar(option),
        show_default=False,
        show_choices=False,
        negative=() if typed is not bool or option.default is False else f"--no-{long[2:]}",
        group=_group(option),
        consume_multiple=False,
    )
    kind = (
        inspect.Parameter.POSITIONAL_ONLY if option.positional else inspect.Parameter.KEYWORD_ONLY
    )
    default = inspect.Parameter.empty if option.required and not option.positional else None
    return inspect.Parameter(
        option.name, kind, annotation=Annotated[typed | None, shown], default=default
    )


def _group(option: Option) -> Group:
    if option.positional:
        return Group("Input", sort_key=0)
    if option.loading:
        return Group("Model", sort_key=8)
    if option.readers:
        return Group(f"Of single methods of --{option.parameter.replace('_', '-')}", sort_key=2)
    if isinstance(option.owner, type):
        return Group(summary(option.owner).rstrip("."), sort_key=3)
    return Group("Options", sort_key=1)


def default_text(option: Option) -> str:
    """The default in words, where the help does not say it."""
    value = option.default
    if value is None or value is False or value in ((), "") or "[default:" in option.help:
        return ""
    text = (
        "yes"
        if value is True
        else ",".join(map(str, value))
        if isinstance(value, tuple | list)
        else str(value)
    )
    return f" [default: {text}]"


def _metavar(option: Option) -> str:
    if option.written.metavar or option.positional:
        return option.written.metavar or option.name.upper()
    if mark(option.annotation, TakesMethod):
        return "NAME"
    for kind in kinds(option.annotation):
        if kind in NUMBERS:
            return NUMBERS[kind]
        if get_origin(kind) is Literal:
            return "|".join(map(str, get_args(kind))) if len(get_args(kind)) < 4 else "NAME"
        if _is(kind, os.PathLike):
            return "PATH"
        if _is(kind, Sequence) and kind is not str:
            return {int: "3,4", float: "0.5,1"}.get(_item(kind), "A,B")
    return "TEXT"


# ---- words as values ----


def value(option: Option, typed: Any) -> Any:
    """The typed words as the function takes them; those that do not fit the type stay as they
    are, for the function to refuse.
    """
    words = [_shown(word) for word in typed] if isinstance(typed, list | tuple) else _shown(typed)
    if (
        isinstance(words, bool)
        or mark(option.annotation, TakesMethod) is not None
        or mark(option.annotation, Loaded) is not None
    ):
        return words
    types = kinds(option.annotation)
    if isinstance(words, list):
        return _mapping(option, words) if any(_is(kind, Mapping) for kind in types) else words
    for kind in types:
        if kind in NUMBERS and (number := _read(kind, words)) is not words:
            return number
    for kind in types:
        if str not in types and _is(kind, Sequence) and get_origin(_item(kind)) is None:
            return [_read(_item(kind), part.strip()) for part in words.split(",")]
    return words


def _shown(word: Any) -> Any:
    """The word as it was typed."""
    return f"-{word[1:]}" if isinstance(word, str) and word.startswith(DASH) else word


def _read(kind: Any, word: str) -> Any:
    """A number, where the word is one."""
    try:
        return kind(word) if kind in NUMBERS else word
    except ValueError:
        return word


def _mapping(option: Option, words: Iterable[str]) -> dict[int, list[str]]:
    """NUMBER=A,B words as a mapping; words with the same number add up."""
    values: dict[int, list[str]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        number = _read(int, key.strip())
        if not equals or not isinstance(number, int):
            raise InputError(
                f"{option.name} {word!r} is not understood: give"
                f" {option.written.metavar or 'NUMBER=A,B'}"
            )
        values.setdefault(number, []).extend(
            part.strip() for part in text.split(",") if part.strip()
        )
    return values


def _item(kind: Any) -> Any:
    """The type of a list's items."""
    return kinds(get_args(kind)[0])[0]


def _is(kind: Any, family: type) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, family)
