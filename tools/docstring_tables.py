"""For mkdocstrings: docstrings as this project writes them, turned into Markdown.

    name     what it is        lines of names with two spaces or more after them become a table
    >>> example                becomes a block of code, up to the next empty line

The arguments of a verb (`documented`) are those of its table of options. A public name has the signature that Python says it has
(what a decorator makes of it, and values instead of the names of constants), and its table a column of defaults.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Any

import griffe

import unmask
from unmask.options import table as options_of
from unmask.options.option import with_arguments

ROW = re.compile(r"^(?P<name>[A-Za-z_`][\w`,. ()]*?) {2,}(?P<meaning>\S.*)$")
EXAMPLE = ">>> "
DEFAULT = re.compile(r" *\[default: (?P<default>.*)\]$")
REQUIRED, BAR = "required", "\\|"
Defaults = Mapping[str, str]
"""What stands where an argument is left out, by its name."""


def markdown(docstring: str, defaults: Defaults | None = None) -> str:
    """The docstring with its tables and examples as Markdown; with `defaults`, where there are any, in a third column."""
    return "\n\n".join(part for paragraph in docstring.split("\n\n") for part in parts(paragraph.strip("\n"), defaults or {}))


def parts(paragraph: str, defaults: Defaults) -> Iterator[str]:
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
                yield table(rows, defaults)
                rows = []
            text.append(line)
    if rows:
        yield table(rows, defaults)
    if text:
        yield "\n".join(text)


def table(rows: list[list[str]], defaults: Defaults) -> str:
    """A Markdown table of names and meanings, and of what is used where an argument is left out."""
    lines = [("name", "meaning", "default"), ("---", "---", "---")]
    for names, meaning in rows:
        words, known = DEFAULT.search(meaning), [defaults.get(name, "") for name in names.replace("`", "").split(", ")]
        default = words["default"] if words else ", ".join(filter(None, known))
        lines.append((names if "`" in names else f"`{names}`", DEFAULT.sub("", meaning), default))
    columns = 3 if any(default for *_, default in lines[2:]) else 2
    return "\n".join(f"| {' | '.join(cell.replace('|', BAR) for cell in line[:columns])} |" for line in lines)


class DocstringTables(griffe.Extension):
    """Applies `markdown` to every docstring, and gives public names their signatures."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring."""
        if obj.docstring:
            verb = any(str(d.value).startswith("documented(") for d in getattr(obj, "decorators", ()))
            said = with_arguments(obj.docstring.value, options_of(obj.name)) if verb else obj.docstring.value
            self.said[obj.path], obj.docstring.value = said, markdown(said)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Give every public function and class its signature, and its table the defaults."""
        for name in unmask.__all__ if pkg.name == unmask.__name__ else ():
            found, value = pkg[name], getattr(unmask, name)
            obj = found.final_target if found.is_alias else found
            if isinstance(obj, griffe.Function | griffe.Class) and not (isinstance(value, type) and issubclass(value, Exception)):
                defaults = signed(obj, inspect.signature(value))
                obj.docstring.value = markdown(self.said[obj.path], defaults)


def signed(obj: griffe.Function | griffe.Class, signature: inspect.Signature) -> Defaults:
    """Give the object this signature; what stands for each argument that is left out."""
    function = obj if isinstance(obj, griffe.Function) else obj.members["__init__"]
    defaults = {}
    for parameter in signature.parameters.values():
        mine = function.parameters[parameter.name]
        if str(mine.annotation) != str(parameter.annotation):
            mine.annotation = parameter.annotation
        default, variadic = parameter.default, parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        if default is not Parameter.empty and "factory" not in repr(default):  # of a field, the source says what makes it
            mine.default = default.__name__ if isinstance(default, type) else repr(default)
        given = default is Parameter.empty
        required = "" if variadic or isinstance(obj, griffe.Class) else REQUIRED
        defaults[parameter.name] = required if given else f"`{mine.default}`"
    if isinstance(obj, griffe.Function) and str(obj.returns) != str(signature.return_annotation):
        obj.returns = str(signature.return_annotation)
    return defaults
