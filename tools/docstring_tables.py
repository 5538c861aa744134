"""For mkdocstrings: docstrings as this project writes them, turned into Markdown.

    name     what it is        lines of names with two spaces or more after them become a table
    >>> example                becomes a block of code, up to the next empty line

A function that takes one text or a list of them (`one_or_many`) is shown with both. The arguments of a verb (`documented`) are
those of its table of options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

from unmask.options import table as options_of
from unmask.options.option import with_arguments

ROW = re.compile(r"^(?P<name>[A-Za-z_`][\w`,. ()]*?) {2,}(?P<meaning>\S.*)$")
EXAMPLE = ">>> "


def markdown(docstring: str) -> str:
    """The docstring with its tables and examples as Markdown."""
    return "\n\n".join(part for paragraph in docstring.split("\n\n") for part in parts(paragraph.strip("\n")))


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
    cells = [(f"`{name}`" if "`" not in name else name, meaning.replace("|", "\\|")) for name, meaning in rows]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {meaning} |" for name, meaning in cells)])


class DocstringTables(griffe.Extension):
    """Applies `markdown` to every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring, and the signature of a function of one text or many."""
        decorators = [str(d.value) for d in getattr(obj, "decorators", ())]
        if obj.docstring:
            verb = any(name.startswith("documented(") for name in decorators)
            said = with_arguments(obj.docstring.value, options_of(obj.name)) if verb else obj.docstring.value
            obj.docstring.value = markdown(said)
        if isinstance(obj, griffe.Function) and "one_or_many" in decorators:
            answer = re.sub(r"^Iterator\[(.*)\]$", r"\1", str(obj.returns))
            obj.parameters[0].annotation = "str | Sequence[str]"
            obj.returns = f"{answer} | list[{answer}]"
