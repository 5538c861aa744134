"""For mkdocstrings: docstrings as this project writes them, turned into Markdown.

    name     what it is        lines of names with two spaces or more after them become a table
    >>> example                becomes a block of code, up to the next empty line

The sections "Parameters:" and "Returns:" are left to mkdocstrings, in NumPy's form, which adds
types and defaults from the signature; examples after them become a section of their own. A class
that `unmask.common.border.calls.settings`, or `unmask.method`, decorates is a dataclass.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import griffe

from unmask.common.border.declarations import conditions, documentation, hints
from unmask.common.border.marks import resolved
from unmask.common.border.readable import type_text

ROW = re.compile(r"^(?P<name>[A-Za-z_`][\w`,. ()]*?) {2,}(?P<meaning>\S.*)$")
EXAMPLE = ">>> "
PARAMETERS = "\nParameters\n----------\n"
RETURNS = "\nReturns\n-------\n"


def markdown(docstring: str) -> str:
    """The docstring with its tables and examples as Markdown.

    Examples after a section are a section of their own: mkdocstrings would take them for a part of
    the one before.
    """
    places = [docstring.find(section) for section in (PARAMETERS, RETURNS) if section in docstring]
    if not places:
        return plain(docstring)
    sections = docstring[min(places) :]
    return plain(docstring[: min(places)]) + sections.replace(
        f"\n\n{EXAMPLE}", f"\n\nExamples\n--------\n{EXAMPLE}", 1
    )


def plain(text: str) -> str:
    """Paragraphs with their tables and examples as Markdown."""
    return "\n\n".join(
        part for paragraph in text.split("\n\n") for part in parts(paragraph.strip("\n"))
    )


def parts(paragraph: str) -> Iterator[str]:
    """A paragraph as text, tables and code."""
    if paragraph.startswith(EXAMPLE):
        yield f"```pycon\n{paragraph}\n```"
        return
    rows: list[list[str]] = []
    text: list[str] = []
    for line in paragraph.splitlines():
        row = ROW.match(line)
        if row:
            if text:
                yield "\n".join(text)
                text = []
            rows.append([row["name"], row["meaning"]])
        elif rows and line.startswith(" "):
            rows[-1][1] += f" {line.strip()}"
        else:
            if rows:
                yield table(rows)
                rows = []
            text.append(line)
    if rows:
        yield table(rows)
    if text:
        yield "\n".join(text)


def table(rows: list[list[str]]) -> str:
    """A Markdown table of names and meanings."""
    cells = [
        (names if "`" in names else f"`{names}`", meaning.replace("|", "\\|"))
        for names, meaning in rows
    ]
    return "\n".join(
        f"| {name} | {meaning} |" for name, meaning in [("name", "meaning"), ("---", "---"), *cells]
    )


def as_numpy(docstring: str, function: griffe.Object) -> str:
    """The docstring with its section "Parameters:" as mkdocstrings reads it, and with the help
    that types have.
    """
    docstring = returns_as_numpy(docstring, function)
    section = re.search(r"^Parameters:\n((?: .*\n?)+)", docstring, re.MULTILINE)
    if section is None:
        return docstring
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", section[1], re.MULTILINE)
    if function.module is function.parent and (function.is_function or is_settings(function)):
        declared = resolved(f"{function.module.path}:{function.name}")
        shared = {}
        if function.is_function:
            shared = documentation(declared)
            entries = [(name, shared[name]) for name, _ in entries]  # with names of methods in it
        entries += [(name, help) for name, help in shared.items() if name not in dict(entries)]
        beside = conditions(declared)
        entries = [
            (name, f"{help} [{beside[name]}]" if name in beside else help) for name, help in entries
        ]
    listed = "\n".join(f"{name}\n    {' '.join(help.split())}" for name, help in entries)
    return f"{docstring[: section.start()]}{PARAMETERS[1:]}{listed}\n{docstring[section.end() :]}"


def is_settings(declared: griffe.Object) -> bool:
    """Whether this is a class of options."""
    return isinstance(declared, griffe.Class) and any(
        str(decorator.value) in ("settings", "method") for decorator in declared.decorators
    )


def returns_as_numpy(docstring: str, function: griffe.Object) -> str:
    """The docstring with its section "Returns:" as mkdocstrings reads it, with the type of the
    signature.
    """
    section = re.search(r"^Returns:\n((?: .*\n?)+)", docstring, re.MULTILINE)
    if section is None:
        return docstring
    result = getattr(function, "returns", None) or "object"
    listed = f"{RETURNS[1:]}{result}\n    {' '.join(section[1].split())}"
    return f"{docstring[: section.start()]}{listed}\n{docstring[section.end() :]}"


def is_checked(function: griffe.Function) -> bool:
    """Whether it is a function of a module whose signature `common.border` reads."""
    names = {str(decorator.value) for decorator in function.decorators}
    return isinstance(function.parent, griffe.Module) and bool(names & {"checked", "one_or_many"})


def show_types_of_function(function: griffe.Function) -> None:
    """Put types as `inspect.signature` has them in the place of the annotations."""
    signature = inspect.signature(resolved(f"{function.module.path}:{function.name}"))
    for parameter in function.parameters:
        annotation = signature.parameters[parameter.name].annotation
        parameter.annotation = expression(repr(annotation), function)
    function.returns = expression(repr(signature.return_annotation), function)


def expression(text: str, parent: griffe.Object) -> griffe.Expr | str | None:
    """A type as mkdocstrings shows it, with links to the classes that it names."""
    return griffe.safe_get_annotation(ast.parse(text, mode="eval").body, parent=parent)


class DocstringTables(griffe.Extension):
    """Applies `markdown` to every docstring, shows settings as dataclasses, and types as a reader
    sees them.
    """

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give a function its readable types, and rewrite the docstring."""
        if isinstance(obj, griffe.Function) and is_checked(obj):
            show_types_of_function(obj)
        if obj.docstring:
            obj.docstring.value = markdown(as_numpy(obj.docstring.value, obj))

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Name the decorators of settings and methods as mkdocstrings knows them."""
        for decorator in cls.decorators:
            if str(decorator.value) in ("settings", "method"):
                decorator.value = griffe.ExprName("dataclass", parent="dataclasses")
                cls.extra["unmask"]["settings"] = True

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Give the fields of settings and methods their readable types."""
        if not cls.extra["unmask"].get("settings"):
            return
        annotations = hints(resolved(f"{cls.module.path}:{cls.name}"))
        for name, annotation in annotations.items():
            if name in cls.attributes:
                cls.attributes[name].annotation = expression(type_text(annotation), cls)
