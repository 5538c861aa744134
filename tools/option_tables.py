"""The tables of options in docs/cli/, from the rows of `unmask.options`.

    python tools/option_tables.py        writes them again

In a document, a table stands between `<!-- options of NAME -->` and `<!-- end -->`. NAME is a command, such as `fill` or
`lab masking`.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from unmask.options import table
from unmask.options.lab import STUDIES, AllOptions, with_output
from unmask.options.option import Options, Row

DOCUMENTS = sorted((Path(__file__).parents[1] / "docs" / "cli").glob("*.md"))
PLACE = re.compile(r"(<!-- options of (?P<name>[\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(text: str) -> str:
    """The document with every table as the rows have it."""
    return PLACE.sub(lambda found: f"{found[1]}\n{written(options_of(found['name']))}\n{found[3]}", text)


def options_of(name: str) -> type[Options]:
    """The table of a command."""
    verb, _, study = name.partition(" ")
    if verb != "lab":
        return table(verb)
    return with_output(AllOptions, "lab-report") if study == "all" else with_output(STUDIES[study], "lab")


def written(rows: type[Options]) -> str:
    """A Markdown table: names, meaning with the methods that read it, default; a line for each group."""
    lines = ["| option | meaning | default |", "| --- | --- | --- |"]
    for group, some in groupby(rows.declared(), key=lambda row: row.group):
        lines += [f"| *{group}* | | |"] if group else []
        lines += [_line(row, rows.readers(row.name)) for row in some]
    return "\n".join(lines) + "\n"


def _line(row: Row, readers: str) -> str:
    names = ", ".join(f"`{flag}`" for flag in row.flags) or f"`{row.metavar or row.name.upper()}`".replace("|", "\\|")
    required = " (required)" if row.required in ("command", "both") else ""
    return f"| {names} | {_plain(row.command_help() + readers)}{required} | {_plain(row.shown_default)} |"


def _plain(text: str) -> str:
    """Text in a cell: what Markdown would read as emphasis or as the end of a cell is escaped."""
    return re.sub(r"([*|<])", r"\\\1", text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(renewed(document.read_text()))
