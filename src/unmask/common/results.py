"""One mechanism for results: a result is a dataclass, and its JSON, data frame and notebook
view follow from it.

class Filling(Result):
    KEYS = ("text", "construction", "gold=is_gold", "completions")
            attributes in JSON, in this order; by default all fields.
                                                                   gold=is_gold: JSON has the
                                                                       attribute under another
                                                                       name
    OPTIONAL = ("warning",)
            left out of JSON where they are None or an empty list
    ROWS = "completions"
            the attribute whose items are the rows of the data frame

The answers to several texts have the number of their text in `item`, also in JSON.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from unmask.common.plain import keys, plain

if TYPE_CHECKING:
    import pandas


class Result:
    """Base of every result."""

    KEYS: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[str] = ""
    item = None
    """Of the answer to one of several texts its number, from 1: of its line or row in a file,
    or of its place in a list.
    """

    def to_dict(self) -> dict[str, Any]:
        """The JSON that the command prints with --json."""
        kind: type = type(self)
        values: dict[str, Any] = {} if self.item is None else {"item": self.item}
        values |= {key: plain(getattr(self, attribute)) for key, attribute in keys(kind).items()}
        return {
            name: value
            for name, value in values.items()
            if value not in (None, []) or name not in self.OPTIONAL
        }

    def __plain__(self) -> dict[str, Any]:
        """A result inside another one."""
        return self.to_dict()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame: one row per item of the list in JSON, or one row in all."""
        import pandas

        described = self.to_dict()
        rows = described[self.ROWS] if self.ROWS else [described]
        return pandas.DataFrame([dict(row) for row in rows])

    @property
    def headline(self) -> str:
        """One line above the table of a notebook."""
        return type(self).__name__

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.headline)}</p>{self.to_frame().to_html(index=False)}"
