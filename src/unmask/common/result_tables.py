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
LEAST_WIDTH_OF_NAMES = 24  # characters


@dataclass(frozen=True)
class Filled:
    """A text with the places of what filled its blanks.

    spans   for each filled blank its first character and the one after its last; spans do not
            overlap
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
    show    writes a value; texts and None are not given to it
    stored  turns a value into the one that JSON and files have, where the heading names another
            one: rows may hold the logarithm of a probability
    text    whether the column holds names or texts: these begin at the left and may be folded,
            while numbers end at the right and stay in one line
    least   of a first column of names, the characters that a narrow screen leaves it
    """

    head: str
    show: Callable[[Any], str] = number
    text: bool = False
    least: int = LEAST_WIDTH_OF_NAMES
    stored: Callable[[Any], Any] | None = None

    def shown(self, value: Any) -> str:
        """A value as it is shown: a text as it is, None as a dash."""
        if value is None:
            return NO_VALUE
        if isinstance(value, str | Filled):
            return str(value)
        return self.show(value)

    def in_json(self, value: Any) -> Any:
        """A value as JSON and files have it."""
        if isinstance(value, Filled):
            return value.to_dict()
        if self.stored is not None and value is not None:
            return in_json(self.stored(value))
        return in_json(value)


@dataclass(frozen=True)
class Table:
    """A table of a result.

    rows    a value for each column: a number, a text, a `Filled` text, or None for no value
    title   a line above the table
    notes   lines below it
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = ()

    def shown(self) -> list[list[str]]:
        """The rows as they are shown."""
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
        rows = []
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            rows.append([column.in_json(value) for column, value in cells])
        return {
            "title": written_by(write, self.title),
            "columns": columns,
            "rows": rows,
            "shown": self.shown(),
            "notes": [written_by(write, note) for note in self.notes],
        }

    def to_html(self) -> str:
        """The table of a notebook."""
        heads = "".join(f"<th>{_lines(column.head)}</th>" for column in self.columns)
        body = ""
        for row in self.rows:
            pairs = zip(self.columns, row, strict=True)
            cells = [_html_cell(column, value) for column, value in pairs]
            body += f"<tr>{''.join(cells)}</tr>"
        title = f"<p>{_sentence(self.title)}</p>" if self.title else ""
        notes = "".join(f"<p>{_sentence(note)}</p>" for note in self.notes)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return title + table + notes


def _html_cell(column: Column, value: Any) -> str:
    align = "left" if column.text else "right"
    if isinstance(value, Filled):
        cell = _html_of_filled(value)
    else:
        cell = _lines(column.shown(value))
    return f'<td style="text-align: {align}">{cell}</td>'


def _html_of_filled(filled: Filled) -> str:
    """The text with its filled blanks in bold, and its mark."""
    html = ""
    written = 0  # characters of the text that are in `html`
    for start, stop in sorted(filled.spans):
        html += _lines(filled.text[written:start])
        html += f"<b>{_lines(filled.text[start:stop])}</b>"
        written = stop
    return html + _lines(filled.text[written:] + filled.mark)


def _sentence(text: str) -> str:
    """HTML of a sentence, with the arguments that it names."""
    return _lines(written_by(in_python, text))


def _lines(text: str) -> str:
    """HTML of a text that may have several lines."""
    return escape(text).replace("\n", "<br>")
