"""What a signature and its docstring say: the types of parameters, and their help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import SimpleNamespace
from typing import Any, get_type_hints

from unmask.common.border.marks import Only, TakesMethod, Written, mark
from unmask.common.errors import in_python, written_by

Declared = Callable[..., Any]
"""A public function, or a dataclass whose fields are options."""

SECTION = re.compile(r"^Parameters:\n((?: .*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", re.MULTILINE)
"""One parameter in the section: its name, and the help with the lines that go on deeper."""
NAMES = "{names}"
"""In the help of a parameter that takes a method: the names of the methods, from their registry."""
END_OF_DESCRIPTION = re.compile(r"^(?:Parameters:$|Returns:$|>>> )", re.MULTILINE)


def plain_function(declared: Declared) -> Any:
    """The function below its wrappers, whose annotations, globals and docstring are read."""
    return inspect.unwrap(declared)


@cache
def hints(declared: Declared) -> dict[str, Any]:
    """The evaluated annotations of a function's parameters, or of a dataclass's fields."""
    if isinstance(declared, type):
        evaluated = get_type_hints(declared, include_extras=True)
        return {field.name: evaluated[field.name] for field in fields(declared)}
    function = plain_function(declared)
    of_parameters = dict(function.__annotations__)
    of_parameters.pop("return", None)  # the class of a result would load torch
    return get_type_hints(
        SimpleNamespace(__annotations__=of_parameters), function.__globals__, include_extras=True
    )


@cache
def documentation(declared: Declared) -> Mapping[str, str]:
    """The help of each parameter or field: from the section "Parameters" of the docstring, else
    from the mark `Written` of its annotation. The names of methods stand for NAMES in it.

    A dataclass has the help of its base classes' fields, too.
    """
    annotations = hints(declared)
    helps = {}
    for name, text in _with_placeholders(declared).items():
        takes = mark(annotations.get(name), TakesMethod)
        if takes is not None and NAMES in text:
            text = text.replace(NAMES, ", ".join(takes.names))
        helps[name] = text
    return helps


def _with_placeholders(declared: Declared) -> dict[str, str]:
    """The help of each parameter or field as it is written, which loads no method."""
    if isinstance(declared, type):
        helps: dict[str, str] = {}
        for cls in reversed(declared.__mro__):
            helps |= _documented(vars(cls).get("__doc__"))
        return helps
    helps = {}
    for name, annotation in hints(declared).items():
        written = mark(annotation, Written)
        if written is not None and written.help:
            helps[name] = written.help
    return helps | _documented(plain_function(declared).__doc__)


def conditions(declared: Declared) -> Mapping[str, str]:
    """Beside which arguments, or without which, a parameter or field means something, in words
    and in Python's names: of those that have a mark `Only`.
    """
    found = {}
    for name, annotation in hints(declared).items():
        only = mark(annotation, Only)
        if only is not None:
            found[name] = written_by(in_python, only.in_words)
    return found


def _documented(docstring: str | None) -> dict[str, str]:
    """Each parameter of the section "Parameters" with its help in one line."""
    section = SECTION.search(inspect.cleandoc(docstring or ""))
    if section is None:
        return {}
    return {name: " ".join(text.split()) for name, text in ENTRY.findall(section[1])}


def summary(declared: Declared) -> str:
    """The first paragraph of the docstring, in one line."""
    return first_paragraph(inspect.getdoc(declared) or "")


def first_paragraph(docstring: str) -> str:
    """The first paragraph of a docstring without its indentation, in one line."""
    first, _, _ = docstring.partition("\n\n")
    return " ".join(first.split())


def description(declared: Declared) -> str:
    """The docstring between its first paragraph and its sections or examples."""
    _, _, rest = (inspect.getdoc(declared) or "").partition("\n\n")
    return END_OF_DESCRIPTION.split(rest, maxsplit=1)[0].strip()


def with_shared_help(function: Declared) -> str | None:
    """The function's docstring, with what annotations say in its section "Parameters", so that
    Python's `help` shows it, too: shared help, conditions, and where names of methods are.
    """
    head, section, entries = inspect.cleandoc(function.__doc__ or "").partition("\nParameters:\n")
    if not section:
        return function.__doc__
    listed, gap, rest = entries.partition("\n\n")
    annotations = hints(function)

    def entry_without_names(entry: re.Match[str]) -> str:
        """The names themselves would load every method when a verb is imported."""
        takes = mark(annotations.get(entry[1]), TakesMethod)
        if takes is None:
            return entry[0]
        return entry[0].replace(NAMES, f"those of unmask.{takes.public_name}")

    listed = ENTRY.sub(entry_without_names, listed)
    shared = [
        f"\n    {name}: {help_text}"
        for name, help_text in _with_placeholders(function).items()
        if f"    {name}: " not in listed
    ]
    in_words = conditions(function)

    def with_condition(entry: re.Match[str]) -> str:
        name = entry[1]
        return f"{entry[0]} [{in_words[name]}]" if name in in_words else entry[0]

    all_listed = ENTRY.sub(with_condition, listed + "".join(shared))
    return f"{head}{section}{all_listed}{gap}{rest}"
