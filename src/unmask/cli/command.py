"""From a signature to a command: cyclopts parses words and prints the help, `unmask.signature` says what the words mean.

Every option is read as text and turned into a value by its type: 3,4 is a list, 2=red,green an item of a mapping. The function
itself checks the value, once, so that Python and the command line refuse the same things in the same words.
"""

from __future__ import annotations

import inspect
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import App, Group, Parameter

from unmask.cli import process
from unmask.errors import InputError
from unmask.signature import Loaded, Method, Option, Written, _loaded, arguments, description, mark, options, summary

MODEL = "Model"
"""The heading of the options that load a model."""
NUMBERS = {int: "INT", float: "NUMBER"}
DASH = "\0"
"""Stands for the dash of a word that cyclopts would take for an option: standard input (-), and numbers such as -0.2:0.2."""


def command(name: str, function: Callable[..., Any], run: Callable[[dict[str, Any]], Any], extra: Sequence[Option] = ()) -> App:
    """The command of a function: its options, and those that only the command line has (`extra`).

    run   prints; called with the arguments that were typed, as the function takes them, and the values of `extra`
    """
    listed = [*options(function), *extra]
    own = {option.name for option in extra}
    app = App(
        name=name,
        help=_help(function),
        help_format="plaintext",
        version_flags=(),
        help_flags=("--help", "-h"),
        suppress_keyboard_interrupt=False,
    )

    def call(*words: Any, **named: Any) -> Any:
        placed = [option.name for option in listed if option.positional]
        typed = dict(zip(placed, words, strict=False)) | named
        values = {
            option.name: value(option, typed[option.name])
            for option in listed
            if option.name in typed and typed[option.name] is not None
        }
        flat = {name: one for name, one in values.items() if name not in own}
        with process.reported(name, values.get("out")):
            return run(arguments(function, flat) | {name: one for name, one in values.items() if name in own})

    call.__signature__ = inspect.Signature([_parameter(option) for option in listed])  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: _parameter(option).annotation for option in listed}
    app.default(call)
    return app


def hidden(word: str) -> str:
    """The word as cyclopts gets it."""
    return DASH + word[1:] if word == "-" or re.match(r"-\.?\d", word) else word


def shown(word: Any) -> Any:
    """The word as it was typed."""
    return f"-{word[1:]}" if isinstance(word, str) and word.startswith(DASH) else word


def _help(function: Callable[..., Any]) -> str:
    paragraphs = [summary(function), *description(function).split("\n\n")]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph)


def _parameter(option: Option) -> inspect.Parameter:
    """The option as cyclopts reads it: text, several texts, or a flag."""
    several: Any = tuple.__class_getitem__((str,) * option.written.words)
    typed: Any = bool if _is_flag(option) else several if option.written.words > 1 else list[str] if repeats(option) else str
    help_text = option.help + (f" [{_readers(option)}]" if option.readers else "") + default_text(option)
    long = f"--{option.name.replace('_', '-')}"
    shown = Parameter(
        name=None if option.positional else [long, *([option.written.short] if option.written.short else [])],
        help=help_text,
        metavar="" if typed is bool else _metavar(option),
        show_default=False,
        show_choices=False,
        negative=() if typed is not bool or option.default is False else f"--no-{long[2:]}",
        group=_group(option),
        consume_multiple=False,
    )
    kind = inspect.Parameter.POSITIONAL_ONLY if option.positional else inspect.Parameter.KEYWORD_ONLY
    default = inspect.Parameter.empty if option.required and not option.positional else None
    return inspect.Parameter(option.name, kind, annotation=Annotated[typed | None, shown], default=default)


def _group(option: Option) -> Group:
    if option.positional:
        return Group("Input", sort_key=0)
    if option.owner is None:
        return Group(MODEL, sort_key=8) if mark(option.annotation, Loaded) else Group("Options", sort_key=1)
    if isinstance(option.owner, type) and not option.readers:
        return Group(summary(option.owner).rstrip("."), sort_key=3)
    if option.readers:
        return Group(f"Of single methods of --{option.parameter.replace('_', '-')}", sort_key=2)
    return Group(MODEL, sort_key=8)


def _readers(option: Option) -> str:
    return ", ".join(option.readers)


def default_text(option: Option) -> str:
    """The default in words, where the help does not say it."""
    value = option.default
    if value is None or value is False or value in ((), "") or "[default:" in option.help:
        return ""
    text = "yes" if value is True else ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return f" [default: {text}]"


def _metavar(option: Option) -> str:
    if option.written.metavar:
        return option.written.metavar
    if option.positional:
        return option.name.upper() + ("..." if repeats(option) else "")
    if mark(option.annotation, Method):
        return "NAME"
    members = [_bare(one) for one in _members(option.annotation)]
    for member in members:
        if member in NUMBERS:
            return NUMBERS[member]
        if get_origin(member) is Literal:
            return "|".join(map(str, get_args(member))) if len(get_args(member)) < 4 else "NAME"
        if _is_mapping(member):
            return "KEY=VALUE"
        if _is_list(member):
            inner = _bare(next(iter(_members(get_args(member)[0]))))
            return {int: "3,4", float: "0.5,1"}.get(inner, "PATH" if _is_path(inner) else "A,B")
        if _is_path(member):
            return "PATH"
    return "TEXT"


def _is_flag(option: Option) -> bool:
    return [_bare(one) for one in _members(option.annotation)] in ([bool], [bool, type(None)])


def repeats(option: Option) -> bool:
    """Whether the option may be given several times, or takes all words that are left."""
    if option.written.repeat:
        return True
    members = [_bare(one) for one in _members(option.annotation)]
    lists = [one for one in members if _is_list(one)]
    of_paths = any(_is_path(_bare(inner)) for one in lists for inner in _members(get_args(one)[0]))
    return any(map(_is_mapping, members)) or of_paths


def value(option: Option, words: Any) -> Any:
    """What was typed, as the function takes it; words that do not fit the type stay as they are, for the function to refuse."""
    words = [shown(word) for word in words] if isinstance(words, list) else shown(words)
    written: Written = option.written
    if written.read:
        return _loaded(written.read)(words)
    if isinstance(words, bool) or mark(option.annotation, Method) or mark(option.annotation, Loaded):
        return words
    members = [_bare(one) for one in _members(option.annotation)]
    if isinstance(words, tuple):
        return [_path(word, option) for word in words]
    if isinstance(words, list):
        mappings = [one for one in members if _is_mapping(one)]
        if not mappings:
            return [_path(word, option) if _has_path(option) else word for word in words]
        items = [word.partition("=") for word in words]
        key = _bare(get_args(mappings[0])[0])
        if str in members and len(words) == 1 and not (items[0][1] and isinstance(_read(key, items[0][0]), key)):
            return words[0]
        return _mapping(option, mappings[0], items)
    for member in sorted(members, key=lambda one: one is str or not (one in NUMBERS or _is_list(one))):
        if _is_list(member) and str in members:
            continue
        if (read := _member(option, member, words)) is not words:
            return read
    return words


def _member(option: Option, member: Any, word: str) -> Any:
    if member in (int, float):
        return _read(member, word)
    if _is_list(member):
        inner = _bare(next(iter(_members(get_args(member)[0]))))
        return word if _is_list(inner) else [_read(inner, part.strip()) for part in word.split(",")]
    if _is_path(member) and str not in [_bare(one) for one in _members(option.annotation)]:
        return _path(word, option)
    return word


def _read(kind: Any, word: str) -> Any:
    """A number, where the word is one."""
    if kind not in (int, float):
        return word
    try:
        return kind(word)
    except ValueError:
        return word


def _mapping(option: Option, kind: Any, items: Iterable[tuple[str, str, str]]) -> dict[Any, Any]:
    key_type, value_type = get_args(kind)
    lists = _is_list(_bare(value_type))
    made: dict[Any, Any] = {}
    for key, equals, text in items:
        read = _read(_bare(key_type), key.strip())
        if not equals or not key.strip() or (_bare(key_type) is int and not isinstance(read, int)):
            form = option.written.metavar or "KEY=VALUE"
            raise InputError(f"{option.name} {key + equals + text!r} is not understood: give {form}")
        if lists:
            made.setdefault(read, []).extend(part.strip() for part in text.split(",") if part.strip())
        elif read in made:
            raise InputError(f"{option.name} names {key!r} twice: name each once")
        else:
            made[read] = text.strip()
    return made


def _path(word: str, option: Option) -> Any:
    from unmask.runs.files import user_path

    return user_path(word, option.name)


def _has_path(option: Option) -> bool:
    lists = [_bare(one) for one in _members(option.annotation) if _is_list(_bare(one))]
    return any(_is_path(_bare(inner)) for one in lists for inner in _members(get_args(one)[0])) and not option.positional


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _members(annotation: Any) -> list[Any]:
    bare = _bare(annotation)
    if get_origin(bare) in (Union, types.UnionType):
        return [one for member in get_args(bare) for one in _members(member)]
    return [annotation]


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_list(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping | os.PathLike)


def _is_path(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, os.PathLike)
