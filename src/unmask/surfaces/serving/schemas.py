"""The schemas of answers, from the classes of results: which keys there are, and what a person
sees.
"""

from __future__ import annotations

from dataclasses import fields
from inspect import unwrap
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from unmask.common.border.marks import kinds
from unmask.common.plain import keys
from unmask.common.results import Result
from unmask.surfaces.serving.requests import ENDPOINTS

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
"""JSON has no infinities: they are words."""
SIMPLE: dict[Any, Schema] = {
    str: TEXT,
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: NUMBER,
    NoneType: {"type": "null"},
}


def _record(**members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": list(members)}


COLUMN = _record(head=TEXT, text={"type": "boolean"})
TABLE = _record(
    title=TEXT,
    columns={"type": "array", "items": COLUMN},
    rows={"type": "array", "items": {"type": "array"}},
    shown={"type": "array", "items": TEXTS},
    notes=TEXTS,
)
VIEW = _record(
    heading=TEXT,
    about=TEXTS,
    tables={"type": "array", "items": TABLE},
    verdict=TEXTS,
    notices=TEXTS,
)
"""What a person sees of a result; see `unmask.common.results`."""
DRAWN: Schema = {"description": "What the page draws beside it: null where nothing is."}
HELPERS = {
    "words": _record(text=TEXT, words={"type": "array", "items": {"type": "object"}}),
    "batch": _record(rows=TABLE, view=VIEW),
}
"""Answers that are no result of a verb."""


def answer_schema(name: str) -> Schema:
    """The schema of the answer to a question."""
    if name in HELPERS:
        return HELPERS[name]
    kind: Any = _result_of(ENDPOINTS[name].function)
    members = {key: _of_attribute(kind, attribute) for key, attribute in keys(kind).items()}
    required = [key for key in members if key not in kind.OPTIONAL]
    return {
        "type": "object",
        "description": (kind.__doc__ or "").split("\n\n")[0],
        "properties": {**members, "view": VIEW, "drawn": DRAWN},
        "required": [*required, "view", "drawn"],
    }


def _result_of(verb: Any) -> type[Result]:
    """The class of a verb's result for one text."""
    returned = get_type_hints(unwrap(verb))["return"]
    (kind,) = get_args(returned) or (returned,)  # of verbs that answer one by one, an iterator
    result: type[Result] = kind
    return result


def _of_attribute(kind: type, attribute: str) -> Schema:
    """The schema of a field or a property; any JSON where its type is no simple one."""
    declared = getattr(kind, attribute, None)
    is_field = attribute in {one.name for one in fields(kind)}  # type: ignore[arg-type]
    try:
        if isinstance(declared, property) and not is_field:
            annotation = get_type_hints(declared.fget)["return"]
        else:
            annotation = get_type_hints(kind)[attribute]
    except (KeyError, NameError, TypeError):  # a method, or a class that is imported when needed
        return {}
    return _of_type(annotation)


def _of_type(annotation: Any) -> Schema:
    members = kinds(annotation)
    if len(members) > 1:
        schemas = [_of_type(member) for member in members]
        return {} if {} in schemas else {"anyOf": schemas}
    (kind,) = members
    if get_origin(kind) in (list, tuple):
        return {"type": "array"}
    return SIMPLE.get(kind, {})
