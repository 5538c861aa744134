"""Values as JSON has them: `plain` makes dictionaries, lists, texts and numbers of our objects, and
`in_json` writes infinities and NaN, which JSON has not, as words.

What a user gives in a call is another matter: `checks.plain` turns only the numbers and arrays of
other libraries into Python's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


def plain(value: Any) -> Any:
    """A value as dictionaries, lists, texts and numbers, infinities and NaN among them; what has a
    name alone, such as a joint, is its name.

    An object with a method `__plain__` says itself what it is.
    """
    own = getattr(type(value), "__plain__", None)
    if own is not None:
        return own(value)
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "tables"):
        attributes = keys(type(value))
        return {key: plain(getattr(value, attribute)) for key, attribute in attributes.items()}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a number or an array of NumPy or torch
        return value.tolist()
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(getattr(value, "name", value))


@cache
def keys(kind: type) -> dict[str, str]:
    """The keys of a dataclass in JSON, and the attribute of each: its `KEYS`, or its public
    fields.
    """
    names = getattr(kind, "KEYS", ()) or [
        field.name for field in fields(kind) if not field.name.startswith("_")
    ]
    return {key: attribute or key for key, _, attribute in (name.partition("=") for name in names)}


def in_json(value: Any) -> Any:
    """The plain value with texts for keys, and the words Infinity, -Infinity and NaN for numbers
    that JSON has not; `float` reads them.
    """
    return _in_words(plain(value))


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _in_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_words(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"
