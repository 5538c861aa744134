"""One mechanism for results: a result is a dataclass that knows its sentences and tables, and the
terminal, JSON, data frame, notebook and page follow from it.

    class Filling(Result):
        KEYS = ("text", "construction", "gold=is_gold", "completions")
        OPTIONAL = ("warning",)
        ROWS = "completions"

    KEYS       attributes in JSON, in this order; by default all fields. `gold=is_gold`: JSON has
               the attribute `is_gold` under the name `gold`
    OPTIONAL   left out of JSON where they are None or an empty list
    ROWS       the attribute whose items are the rows of the data frame

What a person sees of a result, from top to bottom:

    heading     the text, sequence or run that it is about
    about()     sentences: what was computed, under which condition
    tables()    tables of values, each with its title and notes
    verdict()   sentences: what is certain, which is better, whether to trust it

and beside it `notices()`: what was left out, and where files are. The answers to several texts
have the number of their text in `item`, also in JSON.
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

LONGEST_HEADING = 400  # characters; of a longer text the words around its blanks are shown


class Result:
    """Base of every result."""

    KEYS: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[str] = ""
    item = None
    """Of the answer to one of several texts its number, from 1: of its line or row in a file,
    or of its place in a list.
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
        """Whether nothing failed; the command ends with exit code 1 if something did."""
        return True

    def stream(self) -> str | None:
        """Lines for other programs, which the command prints on standard output; what a person
        sees then goes to standard error. None for results without them.
        """
        return None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the work early; the command then ends as an interrupted one."""
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
        values |= {key: self._in_json(attribute) for key, attribute in keys(kind).items()}
        return {
            name: value
            for name, value in values.items()
            if value not in (None, []) or name not in self.OPTIONAL
        }

    def _in_json(self, attribute: str) -> Any:
        """An attribute as JSON has it; of a method, such as `verdict`, what it returns."""
        value = getattr(self, attribute)
        if ismethod(value):
            value = value()
        return plain(value)

    def __plain__(self) -> dict[str, Any]:
        """A result inside another one."""
        return self.to_dict()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame: one row per item of the list in JSON, or one row in all."""
        from unmask.common.lazy import pandas

        described = self.to_dict()
        rows = described[self.ROWS] if self.ROWS else [described]
        return pandas.DataFrame([dict(row) for row in rows])

    def _repr_html_(self) -> str:
        heading = around_blanks(self.heading, LONGEST_HEADING)
        parts = [f"<p><b>{escape(heading)}</b></p>"] if heading else []
        parts += _paragraphs(self.about())
        parts += [table.to_html() for table in self.tables()]
        parts += _paragraphs(self.verdict())
        if not parts:  # a part of another result, such as one completion
            parts = [f"<pre>{escape(repr(self))}</pre>"]
        return "".join(parts)


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    written = [written_by(in_python, sentence) for sentence in sentences]
    return [f"<p>{escape(sentence)}</p>" for sentence in written]
