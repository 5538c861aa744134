"""One mechanism for results: a result is a dataclass, and its JSON, data frame, notebook view and JSON schema follow from it.

    class Filling(Result):
        KEYS = ("text", "joint", "gold=is_gold", "completions")        attributes in JSON, in this order; by default all fields.
                                                                       gold=is_gold: JSON has the attribute under another name
        OPTIONAL = ("warning",)                                        left out of JSON where they are None or an empty list
        ROWS = "completions"                                           the attribute whose items are the rows of the data frame

The JSON schema has the types of the fields, and of what properties return.
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

    def to_dict(self) -> dict[str, Any]:
        """The JSON that the command prints with --json."""
        kind: type = type(self)
        values = {key: as_plain(getattr(self, attribute)) for key, attribute in keys(kind).items()}
        return {name: value for name, value in values.items() if value not in (None, []) or name not in self.OPTIONAL}

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
    names = getattr(kind, "KEYS", ()) or [field.name for field in fields(kind) if not field.name.startswith("_")]
    return {key: attribute or key for key, _, attribute in (name.partition("=") for name in names)}


def as_plain(value: Any) -> Any:
    """A value as JSON's dictionaries, lists, texts and numbers; what has a name alone, such as a joint, is its name."""
    if isinstance(value, Result):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "tables"):
        return {key: as_plain(getattr(value, attribute)) for key, attribute in keys(type(value)).items()}
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


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a class of results."""
    from pydantic import ConfigDict, TypeAdapter, create_model

    optional = getattr(kind, "OPTIONAL", ())
    members = {key: (_type(kind, attribute), None if key in optional else ...) for key, attribute in keys(kind).items()}
    model = create_model(kind.__name__, __config__=ConfigDict(arbitrary_types_allowed=True), **members)  # type: ignore[call-overload]
    return dict(TypeAdapter(model).json_schema(mode="serialization"))


def _type(kind: type, name: str) -> Any:
    """The type that an attribute has in JSON; anything where its annotation is a class that JSON shows by name."""
    from typing import get_type_hints

    attribute = getattr(kind, name, None)
    function = getattr(attribute, "fget", None) or getattr(attribute, "func", None)  # of a property, or a cached one
    try:
        hint = get_type_hints(function)["return"] if function is not None else get_type_hints(kind)[name]
    except (NameError, KeyError):
        return Any
    return hint if getattr(hint, "__module__", "builtins") in ("builtins", "typing", "types") else Any
