"""Types as a reader sees them: in Python's help, in a notebook, in an editor and in the reference.

An annotation of the border says more than a type: bounds, marks, and `Any` for classes that would
load torch. `inspect.signature` of a checked function has plain types in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from unmask.common.border.declarations import Declared, hints
from unmask.common.border.marks import UNIONS, ShownType


class ReadableType:
    """An annotation that `inspect` shows as `text`, without quotation marks."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _TypeOfParameter:
    """The type of a parameter, or of a field, as a reader sees it. Its annotation is evaluated
    when it is shown: at import this would take time, and classes below the function are not there
    yet.
    """

    def __init__(self, declared: Declared, name: str) -> None:
        self.declared = declared
        self.name = name

    def __repr__(self) -> str:
        return type_text(hints(self.declared)[self.name])


def readable_signature(given: Signature, declared: Declared) -> Signature:
    """The signature with types as a reader sees them.

    declared   has the annotations: the function, or the class of an __init__
    """
    parameters = [
        parameter
        if parameter.annotation is Parameter.empty
        else parameter.replace(annotation=_TypeOfParameter(declared, parameter.name))
        for parameter in given.parameters.values()
    ]
    returned = given.return_annotation
    if isinstance(returned, str):  # not evaluated: the class of a result would load torch
        returned = ReadableType(returned.replace("unmask.", ""))
    return given.replace(parameters=parameters, return_annotation=returned)


class SignatureOfClass:
    """The signature of a class of options with types as a reader sees them.

    It is made when it is shown: for all classes at import it would take 14 ms. A class that is
    derived from this one has its own.
    """

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, instance: object, owner: type) -> Signature:
        if owner is not self.cls:
            raise AttributeError("__signature__")
        of_init = signature(owner.__init__)  # type: ignore[misc]  # of this class alone
        _self, *parameters = of_init.parameters.values()
        return readable_signature(of_init.replace(parameters=parameters), owner)


def signature_of_many(of_each: Signature) -> Signature:
    """The signature of a function of one text or of many, from that of the function that gives the
    answers one by one: `fill(text: str | list[str] | Path, ...) -> Filling | list[Filling]`.
    """
    first, *others = of_each.parameters.values()
    texts = "str | list[str] | Path"
    answer = re.sub(r"^Iterator\[(.*)\]$", r"\1", repr(of_each.return_annotation))
    return of_each.replace(
        parameters=[first.replace(annotation=ReadableType(texts)), *others],
        return_annotation=ReadableType(f"{answer} | list[{answer}]"),
    )


def type_text(annotation: Any) -> str:
    """A type as a reader writes it: without marks, bounds and names of modules."""
    if isinstance(annotation, str):
        return annotation
    if annotation is None or annotation is NoneType:
        return "None"
    if annotation is ...:
        return "..."
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return _text_of_annotated(annotation)
    if origin in UNIONS:
        texts = dict.fromkeys(type_text(member) for member in arguments)
        without_none = [text for text in texts if text != "None"]
        return " | ".join([*without_none, *(["None"] if "None" in texts else [])])
    if origin is Literal:
        return f"Literal[{', '.join(repr(value) for value in arguments)}]"
    if isinstance(annotation, list):  # the parameters of a Callable
        return f"[{', '.join(type_text(part) for part in annotation)}]"
    if origin is not None and arguments:
        name = "Callable" if origin is Callable else _name(origin)
        return f"{name}[{', '.join(type_text(part) for part in arguments)}]"
    return _name(annotation)


def _text_of_annotated(annotation: Any) -> str:
    """The type below the marks, or what a mark says in its place."""
    for mark in annotation.__metadata__:
        if isinstance(mark, ShownType):
            return mark.text
    return type_text(annotation.__origin__)


def _name(kind: Any) -> str:
    """The name of a class; jaxtyping's has the shape in it."""
    name: str = getattr(kind, "__name__", None) or str(kind).removeprefix("typing.")
    return name
