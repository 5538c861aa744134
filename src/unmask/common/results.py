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

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

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
        values |= {key: as_plain(getattr(self, attribute)) for key, attribute in keys(kind).items()}
        return {
            name: value
            for name, value in values.items()
            if value not in (None, []) or name not in self.OPTIONAL
        }

    def to_frame(self) -> pandas.DataFrame:
        """A data frame: one row per item of the list in JSON, or one row in all."""
        import pandas

        plain = self.to_dict()
        rows = plain[self.ROWS] if self.ROWS else [plain]
        return pandas.DataFrame([dict(row) for row in rows])

    @property
    def headline(self) -> str:
        """One line above the table of a notebook."""
        return type(self).__name__

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.headline)}</p>{self.to_frame().to_html(index=False)}"


@cache
def keys(kind: type) -> dict[str, str]:
    """The keys of a class of results in JSON, and the attribute of each."""
    names = getattr(kind, "KEYS", ()) or [
        field.name for field in fields(kind) if not field.name.startswith("_")
    ]
    return {key: attribute or key for key, _, attribute in (name.partition("=") for name in names)}


def as_plain(value: Any) -> Any:
    """A value as JSON's dictionaries, lists, texts and numbers; what has a name alone, such as
    a joint, is its name.
    """
    if isinstance(value, Result):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "tables"):
        return {
            key: as_plain(getattr(value, attribute)) for key, attribute in keys(type(value)).items()
        }
    if isinstance(value, Mapping):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(getattr(value, "name", value))
