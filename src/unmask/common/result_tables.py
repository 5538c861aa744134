"""The tables of a result: values, and how they are shown.

A verb states heads, formats and notes once; the terminal, the notebook and the page draw the same
table from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from unmask.common.errors import NameWriter, in_python, written_by
from unmask.common.excerpts import Span
from unmask.common.formats import number
from unmask.common.plain import in_json

NO_VALUE = "-"  # how None is shown
NAMES = 24  # characters


@dataclass(frozen=True)
class Filled:
    """A text with the places of what filled its blanks.

    spans   for each filled blank its first character and the one after its last
    mark    what follows the text, such as " *"; a surface that shortens the text keeps it
    """

    text: str
    spans: Sequence[Span] = ()
    mark: str = ""

    def __str__(self) -> str:
        return self.text + self.mark

    def to_dict(self) -> dict[str, Any]:
        """The JSON of a cell."""
        spans = [list(span) for span in self.spans]
        return {"text": self.text, "spans": spans, "mark": self.mark}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    head    its heading; a line break in it is one on the screen
    show    turns a value into text; a text is shown as it is, and None as a dash
    text    whether it holds names or texts, which begin at the left and may be folded; numbers
            end at the right and stay in one line
    least   the characters that a first column of names has at least; numbers that do not fit
            beside them follow in a table below
    """

    head: str
    show: Callable[[Any], str] = number
    text: bool = False
    least: int = NAMES

    def shown(self, value: Any) -> str:
        """A value as text."""
        if value is None:
            return NO_VALUE
        if isinstance(value, str | Filled):
            return str(value)
        return self.show(value)


@dataclass(frozen=True)
class Table:
    """A table of a result.

    rows    values: numbers, texts, `Filled` texts, None where there is none
    title   a line above the table
    notes   lines below it
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = ()

    def shown(self) -> list[list[str]]:
        """The rows as texts."""
        rows = []
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            rows.append([column.shown(value) for column, value in cells])
        return rows

    def to_dict(self, write: NameWriter = in_python) -> dict[str, Any]:
        """The JSON of a table, with the values of the rows, and what is shown for each.

        write   writes the arguments that title and notes name
        """
        columns = [{"head": column.head, "text": column.text} for column in self.columns]
        return {
            "title": written_by(write, self.title),
            "columns": columns,
            "rows": [list(map(_value_in_json, row)) for row in self.rows],
            "shown": self.shown(),
            "notes": [written_by(write, note) for note in self.notes],
        }

    def to_html(self) -> str:
        """The table of a notebook."""
        heads = "".join(f"<th>{_lines(column.head)}</th>" for column in self.columns)
        body = ""
        for row in self.rows:
            cells = map(_html_cell, self.columns, row)
            body += f"<tr>{''.join(cells)}</tr>"
        title = f"<p>{_sentence(self.title)}</p>" if self.title else ""
        notes = "".join(f"<p>{_sentence(note)}</p>" for note in self.notes)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return title + table + notes


def _value_in_json(value: Any) -> Any:
    if isinstance(value, Filled):
        return value.to_dict()
    return in_json(value)


def _html_cell(column: Column, value: Any) -> str:
    shown = _lines(column.shown(value))
    if isinstance(value, Filled):
        shown = _html_of_filled(value)
    align = "left" if column.text else "right"
    return f'<td style="text-align: {align}">{shown}</td>'


def _html_of_filled(filled: Filled) -> str:
    """The text with its filled blanks in bold."""
    html = ""
    end = 0  # the text up to here is written
    for start, stop in sorted(filled.spans):
        html += escape(filled.text[end:start])
        html += f"<b>{escape(filled.text[start:stop])}</b>"
        end = stop
    return html + escape(filled.text[end:] + filled.mark)


def _sentence(text: str) -> str:
    """HTML of a sentence, with the arguments that it names."""
    return _lines(written_by(in_python, text))


def _lines(text: str) -> str:
    """HTML of a text that may have several lines."""
    return escape(text).replace("\n", "<br>")
