"""The schemas of answers, from the classes of results: which keys there are, and what a person
sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from inspect import getdoc, unwrap
from sys import modules
from types import NoneType, SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from unmask.common.border.marks import kinds
from unmask.common.plain import keys
from unmask.common.results import Result
from unmask.surfaces.serving.drawings.chains import GenerateDrawing, SampleDrawing
from unmask.surfaces.serving.drawings.dependence import DependenceDrawing
from unmask.surfaces.serving.drawings.differences import DifferencesAnswer
from unmask.surfaces.serving.drawings.fill import FillDrawing
from unmask.surfaces.serving.drawings.lists import BatchAnswer
from unmask.surfaces.serving.drawings.mutants import MutantsDrawing
from unmask.surfaces.serving.drawings.scores import ScoreDrawing
from unmask.surfaces.serving.requests import ENDPOINTS
from unmask.surfaces.serving.texts import WordsAnswer

Schema = dict[str, Any]
ANYTHING: Schema = {}
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
DRAWINGS: dict[str, type] = {
    "fill": FillDrawing,
    "mutants": MutantsDrawing,
    "dependence": DependenceDrawing,
    "score": ScoreDrawing,
    "sample": SampleDrawing,
    "generate": GenerateDrawing,
}
"""What the page draws of a result. Of other results it draws their tables alone."""
HELPERS: dict[str, type] = {
    "words": WordsAnswer,
    "batch": BatchAnswer,
    "differences": DifferencesAnswer,
}
"""Answers that are not the result of a verb."""
NOTHING: Schema = {"type": "null"}


def answer_schema(name: str) -> Schema:
    """The schema of the answer to a question."""
    if name in HELPERS:
        return _of_record(HELPERS[name])
    result: Any = _result_of(ENDPOINTS[name].function)
    members = {key: _of_attribute(result, attribute) for key, attribute in keys(result).items()}
    required = [key for key in members if key not in result.OPTIONAL]
    drawn = _of_record(DRAWINGS[name]) if name in DRAWINGS else NOTHING
    first_paragraph, _, _ = (getdoc(result) or "").partition("\n\n")
    in_one_line = " ".join(first_paragraph.split())
    return {
        "type": "object",
        "description": in_one_line,
        "properties": {**members, "view": VIEW, "drawn": drawn},
        "required": [*required, "view", "drawn"],
    }


def _of_record(record: type) -> Schema:
    """The schema of a TypedDict, with every `$ref` written out: a part of OpenAPI's document
    cannot refer to definitions of its own.
    """
    schema = TypeAdapter(record).json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return inlined(definitions[name])
        whole = {key: inlined(one) for key, one in part.items()}
        if "prefixItems" in whole:
            whole["items"] = _any_of(whole.pop("prefixItems"))
        return whole

    whole_schema: Schema = inlined(schema)
    return whole_schema


def _any_of(members: list[Schema]) -> Schema:
    """One schema for all members of a tuple, in the place of `prefixItems`, which many readers of
    OpenAPI do not know. Which member stands where is lost.
    """
    different: list[Schema] = []
    for member in members:
        if member not in different:  # not a set: it takes no dict
            different.append(member)
    return different[0] if len(different) == 1 else {"anyOf": different}


def _result_of(verb: Any) -> type[Result]:
    """The class of a verb's result. Of an iterator, with a result for each text, it is the class of
    the items: the server asks for one text.
    """
    returned = get_type_hints(unwrap(verb))["return"]
    is_iterator = get_origin(returned) is Iterator
    result: type[Result] = get_args(returned)[0] if is_iterator else returned
    return result


def _of_attribute(result: type[Result], attribute: str) -> Schema:
    """The schema of a field or a property; ANYTHING of a method, and of a class that is imported
    for type checkers alone.
    """
    declared = getattr(result, attribute, None)
    is_field = attribute in {one.name for one in fields(result)}  # type: ignore[arg-type]
    if isinstance(declared, property) and not is_field:
        owner: Any = declared.fget
        name = "return"
    else:  # a field; a method is not among the annotations of its class
        owner = result
        name = attribute
    try:
        annotations = get_type_hints(owner)
    except NameError:  # one of the annotations is not imported: each is tried by itself
        annotations = _hints_that_resolve(owner)
    return _of_type(annotations[name]) if name in annotations else ANYTHING


def _hints_that_resolve(owner: Any) -> dict[str, Any]:
    """The annotations of a class or a function, without those that are not imported."""
    classes = reversed(owner.__mro__) if isinstance(owner, type) else [owner]
    resolved: dict[str, Any] = {}
    for one in classes:
        names = vars(modules[one.__module__])
        for name, annotation in getattr(one, "__annotations__", {}).items():
            # `get_type_hints` fails as a whole where one annotation does not resolve: it gets an
            # object that has this annotation alone.
            holder = SimpleNamespace(__annotations__={name: annotation})
            # NameError: the class is not imported. TypeError: a ClassVar, which only a class has.
            with suppress(NameError, TypeError):
                resolved |= get_type_hints(holder, globalns=names)
    return resolved


def _of_type(annotation: Any) -> Schema:
    """The schema of an annotation. Simple types, list[...], tuple[...] and unions of them have one;
    all others are ANYTHING.
    """
    members = kinds(annotation)
    schemas = [_of_simple_type(member) for member in members]
    if len(schemas) == 1:
        return schemas[0]
    if ANYTHING in schemas:
        return ANYTHING
    return {"anyOf": schemas}


def _of_simple_type(kind: Any) -> Schema:
    if get_origin(kind) in (list, tuple):
        return {"type": "array"}
    return SIMPLE.get(kind, ANYTHING)
