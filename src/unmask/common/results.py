"""The base class of all results. A result is a dataclass that states its sentences and tables. The
terminal, JSON, data frame, notebook and page are made from these.

    class Filling(Result):
        KEYS = ("text", "construction", "gold=is_gold", "completions")
        OPTIONAL = ("warning",)
        ROWS = "completions"

These three say how a result becomes JSON and a data frame:

KEYS       the attributes in JSON, in this order; by default all fields. `gold=is_gold` writes the
           attribute `is_gold` under the key `gold`.
OPTIONAL   the keys that JSON leaves out where their value is None or an empty list
ROWS       the key of the list whose items are the rows of the data frame

A person sees the parts of a result in this order:

heading     the text, sequence or run that the result is about
about()     sentences: what was computed, and under which condition
tables()    tables of values, each with its title and notes
verdict()   sentences: what is certain, which is better, whether to trust it

Separate from these, `notices()` says what was left out, and where files are.

The answers to several texts have the number of their text in `item`, also in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from inspect import ismethod
from typing import TYPE_CHECKING, Any, ClassVar

from unmask.common.errors import NameWriter, in_python, written_by
from unmask.common.excerpts import around_blanks
from unmask.common.plain import keys, plain

if TYPE_CHECKING:
    import pandas

    from unmask.common.result_tables import Table

LONGEST_HEADING = 400
"""Characters. Of a longer heading only the words around its blanks are shown."""


class Result:
    """Base class of every result."""

    KEYS: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[str] = ""
    item = None
    """The number of the text that this result answers, from 1: its line or row in a file, or its
    place in a list. None if the call had one text.
    """

    @property
    def heading(self) -> str:
        """The text, sequence or run that the result is about; "" if there is none."""
        return ""

    def about(self) -> list[str]:
        """Sentences above the tables: what was computed, under which condition."""
        return []

    def tables(self) -> list[Table]:
        """The tables, in the order in which they are shown."""
        return []

    def verdict(self) -> list[str]:
        """Sentences below the tables: what is certain, which is better, whether to trust it."""
        return []

    def notices(self) -> list[str]:
        """Sentences beside the answer: what was left out, where files are, how to keep them.

        The command line prints them on standard error.
        """
        return []

    @property
    def complete(self) -> bool:
        """Whether no part failed. If one did, the command ends with exit code 1."""
        return True

    def stream(self) -> str | None:
        """Lines for other programs; None for results without them.

        The command prints these lines on standard output, and then what a person sees on standard
        error.
        """
        return None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the work early. The command then ends as an interrupted one."""
        return False

    def summary(self) -> str:
        """The sentences of the result, a line each."""
        return written_by(in_python, "\n".join([*self.about(), *self.verdict()]))

    def view(self, write: NameWriter = in_python) -> dict[str, Any]:
        """What a person sees of the result, as JSON.

        write   writes the arguments that sentences name
        """

        def written(sentences: Sequence[str]) -> list[str]:
            return [written_by(write, sentence) for sentence in sentences]

        return {
            "heading": self.heading,
            "about": written(self.about()),
            "tables": [table.to_dict(write) for table in self.tables()],
            "verdict": written(self.verdict()),
            "notices": written(self.notices()),
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON that the command prints with --json."""
        kind: type = type(self)
        values: dict[str, Any] = {} if self.item is None else {"item": self.item}
        for key, attribute in keys(kind).items():
            values[key] = self._in_json(attribute)
        for key in self.OPTIONAL:
            if key in values and values[key] in (None, []):
                del values[key]
        return values

    def _in_json(self, attribute: str) -> Any:
        """The value of an attribute in JSON; of a method, such as `verdict`, what it returns."""
        value = getattr(self, attribute)
        if ismethod(value):
            value = value()
        return plain(value)

    def __plain__(self) -> dict[str, Any]:
        """The form of this result inside the JSON of another one."""
        return self.to_dict()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with one row per item of the list `ROWS` in JSON; without such a list, one
        row for the whole result.
        """
        from unmask.common.lazy import pandas

        described = self.to_dict()
        rows = described[self.ROWS] if self.ROWS else [described]
        return pandas.DataFrame([dict(row) for row in rows])

    def _repr_html_(self) -> str:
        heading = around_blanks(self.heading, LONGEST_HEADING)
        parts = []
        if heading:
            parts.append(f"<p><b>{escape(heading)}</b></p>")
        parts += _paragraphs(self.about())
        parts += [table.to_html() for table in self.tables()]
        parts += _paragraphs(self.verdict())
        if not parts:  # a part of another result, such as one completion
            parts = [f"<pre>{escape(repr(self))}</pre>"]
        return "".join(parts)


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    """Sentences as paragraphs of HTML, with the names of arguments in Python's form."""
    written = [written_by(in_python, sentence) for sentence in sentences]
    return [f"<p>{escape(sentence)}</p>" for sentence in written]
