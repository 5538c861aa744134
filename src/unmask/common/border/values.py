"""The check of one value against its annotation.

pydantic checks it, strictly: numbers and texts are not taken for each other. A value that means
the same in another library becomes the plain one first. An error says what was given and what to
give; pydantic's *types* of errors are translated, which are part of its interface, and not its
sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from unmask.common.border.marks import UNIONS, Loaded, TakesMethod, kinds, mark
from unmask.common.checks import one_of, plain, shown
from unmask.common.errors import InputError

Problem = Mapping[str, Any]
"""One error of pydantic: its "type", the place "loc" of the value, and "ctx", the error's own
numbers and words.
"""
WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "True or False",
    "string_type": "a text",
    "string_unicode": "a text",
    "list_type": "a list",
    "tuple_type": "a tuple",
    "dict_type": "a dictionary",
    "mapping_type": "a dictionary",
    "sequence_str": "a list",
    "callable_type": "a function",
    "iterable_type": "iterable",
    "path_type": "a path",
    "finite_number": "a finite number",
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number greater than or equal to {ge}",
    "less_than": "a number less than {lt}",
    "less_than_equal": "a number less than or equal to {le}",
    "literal_error": "{expected}",
    "is_instance_of": "{class}",
    "dataclass_type": "an instance of {class_name}",
    "dataclass_exact_type": "an instance of {class_name}",
    "too_long": "at most {max_length} items",
    "too_short": "at least {min_length} items",
    "none_required": "None",
    "missing": "one more value",
}
"""What to give, by the type of pydantic's error; the names in braces are keys of its "ctx"."""
GIVEN_AS = "GIVEN_AS"
"""Attribute of a class whose name would not help in a message: the words for an object of it."""
ANOTHER = "a value of another kind"
"""For types of errors that no annotation of ours leads to today."""
OUT_OF_RANGE = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "finite_number",
}
"""Types of errors of values of the right kind."""
CLASSES = {"Sequence": "a list", "PathLike": "a path", "Tensor": "a tensor"}
"""Words for classes of other libraries, by the names that pydantic gives them in an error."""


def accepted(name: str, value: Any, annotation: Any) -> Any:
    """`value` as the annotation has it; raises an InputError that says what was given and what
    to give.

    name   of the argument
    """
    if getattr(value, "shape", None) == ():  # a number of NumPy or torch
        value = plain(value)
    loaded = mark(annotation, Loaded)
    if loaded is not None:
        return loaded.accepted(name, value)
    method = mark(annotation, TakesMethod)
    none_is_allowed = type(None) in kinds(annotation)
    if method is not None and not (value is None and none_is_allowed):
        return method.accepted(name, value)
    from pydantic import ValidationError

    try:
        return _shaped(name, _validator(annotation).validate_python(value), annotation)
    except ValidationError:  # perhaps the value of another library
        value = plain(value)
    try:
        return _validator(annotation).validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    others = [kind for kind in kinds(annotation) if kind is not type(None)]
    choices = [choice for kind in others for choice in _choices(kind)]
    takes_choices_alone = all(_choices(kind) for kind in others)
    if takes_choices_alone and not isinstance(value, int | float):
        one_of(name, value, choices)
    raise _refused(name, value, problems)


def _choices(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return ()


def _refused(name: str, value: Any, problems: Sequence[Problem]) -> InputError:
    """The error of a value, from all that pydantic found; a union has an error of each member."""
    out_of_range = [one for one in problems if one["type"] in OUT_OF_RANGE]
    of_items = [one for one in problems if any(isinstance(part, int) for part in one["loc"])]
    if out_of_range:
        problem = "out of range"
        listed: Sequence[Problem] = out_of_range
    else:
        problem = "not valid"
        listed = of_items[:1] or problems  # of a list, its first wrong item
    wanted = dict.fromkeys(_wanted(value, one) for one in listed)
    return InputError(
        f"{shown(value)} is {problem}", argument=name, use=f"give {' or '.join(wanted)}"
    )


def _wanted(value: Any, problem: Problem) -> str:
    """What to give, such as "a whole number", and at which item of a list or key of a
    dictionary.
    """
    template = WANTED.get(problem["type"], ANOTHER)
    words = template.format_map(_in_words(problem.get("ctx", {})))
    if isinstance(value, Mapping):
        for part in problem["loc"]:
            if part in value:
                return f"{words} at {part!r}"
    for part in reversed(problem["loc"]):
        if isinstance(part, int):
            return f"{words} as item {part + 1}"
    return words


def _in_words(context: Mapping[str, Any]) -> dict[str, Any]:
    """pydantic's own numbers and words of an error, for a message."""
    words: dict[str, Any] = {}
    for key, one in context.items():
        if key == "class":
            words[key] = CLASSES.get(one, one if " " in one else f"an instance of {one}")
        elif isinstance(one, float) and one.is_integer():
            words[key] = int(one)
        else:
            words[key] = one
    return words


# ---- annotations as pydantic takes them ----


@cache
def _validator(annotation: Any) -> Any:
    """pydantic's validator of an annotation."""
    from pydantic import ConfigDict, TypeAdapter

    config = None
    (kind, *others) = kinds(annotation)
    if others or not is_dataclass(kind):  # which has a configuration of its own
        config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    return TypeAdapter(_for_pydantic(annotation), config=config)


def _for_pydantic(annotation: Any) -> Any:
    """The annotation with our classes and tensors taken as they are, and lists taken as tuples.

    pydantic would look into the fields of a dataclass or a named tuple, and knows no shapes;
    jaxtyping compares those with the shapes of the caller's arguments, so `_shaped` looks at them.
    """
    from pydantic import Strict

    if get_origin(annotation) in UNIONS:
        members = tuple(_for_pydantic(member) for member in get_args(annotation))
        return Union[members]  # noqa: UP007  # the members are known at run time only
    if get_origin(annotation) is tuple:
        return Annotated[annotation, Strict(False)]
    kind = getattr(annotation, "array_type", annotation)
    if isinstance(kind, type):
        has_fields = is_dataclass(kind) or hasattr(kind, "_fields")
        if has_fields or GIVEN_AS in vars(kind):
            return Annotated[kind, _TakenAsIs(kind)]
    return kind


class _TakenAsIs:
    """Tells pydantic to take the objects of a class, and what a message calls one."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """pydantic asks for this: how the class is checked."""
        from pydantic_core.core_schema import is_instance_schema

        words = vars(self.kind).get(GIVEN_AS, f"an instance of {self.kind.__name__}")
        return is_instance_schema(self.kind, cls_repr=words)


def _shaped(name: str, value: Any, annotation: Any) -> Any:
    """A tensor with the number format and the number of axes that jaxtyping's annotation has;
    any other value as it is.
    """
    if not hasattr(annotation, "array_type"):
        return value
    from jaxtyping import jaxtyped

    with jaxtyped("context"):  # its own: the names of axes mean nothing outside of the call
        if isinstance(value, annotation):
            return value
    kind, _, _ = annotation.__name__.partition("[")
    shape = ", ".join(annotation.dim_str.split())
    raise InputError(
        f"of {value.dtype} and shape {tuple(value.shape)} is not valid",
        argument=name,
        use=f"give a tensor of {kind.lower()} and shape ({shape})",
    )
