"""The check of a whole call: every public function, and every dataclass of options, goes through
`checked`. Inside, `trusted` and `changed` make objects of these dataclasses without a check.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast, dataclass_transform

from unmask.common.border.declarations import Declared, hints, with_shared_help
from unmask.common.border.marks import Loaded, Only, TakesMethod, group_of, mark
from unmask.common.border.options import OF_METHODS, title_of, unknown_argument
from unmask.common.border.readable import SignatureOfClass, readable_signature
from unmask.common.border.values import accepted
from unmask.common.checks import shown
from unmask.common.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
Made = TypeVar("Made")


def checked(function: Function, declared: Declared | None = None) -> Function:
    """The function, which raises an InputError for arguments that its signature does not allow.

    A value that means the same in another library becomes the plain one: whole numbers of NumPy
    and torch are int, arrays lists.

    declared   what has the annotations, where it is not the function: the class of an __init__
    """
    signature = inspect.signature(function)
    annotated = declared or function

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:  # its text is Python's own and may change: the reason is found again
            _refuse_unbound(annotated, signature, args, named)
        in_call = set(bound.arguments)
        annotations = hints(annotated)
        of_model = mark(annotations.get("model"), Loaded)
        for name, parameter in signature.parameters.items():
            if name not in annotations:
                continue
            annotation = annotations[name]
            if name in bound.arguments:
                value = bound.arguments[name]
            elif isinstance(parameter.default, str) and mark(annotation, TakesMethod) is not None:
                value = parameter.default  # the name of a method, such as "mh"
            else:
                continue
            if name != "model" and of_model is not None and of_model.is_loaded(value):
                raise InputError(
                    f"{shown(value)} is a model", argument=name, use="give it as model="
                )
            bound.arguments[name] = accepted(name, value, annotation)
        of_group = isinstance(annotated, type)
        given = _given(annotations, bound.arguments, in_call, signature.parameters, of_group)
        _refuse_conflicts(given, of_group)
        return function(*bound.args, **bound.kwargs)

    call.__doc__ = with_shared_help(function)
    if declared is None:
        shown_signature = readable_signature(signature, function)
        call.__signature__ = shown_signature  # type: ignore[attr-defined]
    return cast(Function, call)


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """A frozen dataclass of options, each held to its annotation when an object is made."""
    frozen = cast(Any, dataclass(frozen=True)(cls))
    frozen.__signature__ = SignatureOfClass(frozen)
    frozen.__init__ = checked(frozen.__init__, frozen)
    return cast(Class, frozen)


def trusted(cls: type[Made], **values: Any) -> Made:
    """An object of a frozen dataclass whose values our own code made.

    Neither its `__init__` nor its `__post_init__` runs, which check what a user gives. A field
    without a value has its default.
    """
    made = object.__new__(cls)
    for field in fields(cast(Any, cls)):
        value = values.pop(field.name) if field.name in values else _default_of(field)
        object.__setattr__(made, field.name, value)  # the class is frozen
    if values:
        raise TypeError(f"{cls.__name__} has no field {next(iter(values))}")
    return made


def changed(made: Made, **changes: Any) -> Made:
    """A copy with some fields changed by our own code: `dataclasses.replace` without the check."""
    values = {field.name: getattr(made, field.name) for field in fields(cast(Any, made))}
    return trusted(type(made), **(values | changes))


def _default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise TypeError(f"the field {field.name} has no value and no default")


def _refuse_unbound(
    declared: Declared,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> NoReturn:
    """Raise the error of a call whose arguments do not fit the signature."""
    parameters = signature.parameters
    for name in named:
        if name not in parameters:
            raise unknown_argument(declared, name)
    placed = [one.name for one in parameters.values() if one.kind is not one.KEYWORD_ONLY]
    given_by_place = placed[: len(args)]
    required = [one.name for one in parameters.values() if one.default is one.empty]
    names = list(parameters)
    twice = [name for name in given_by_place if name in named]
    missing = [name for name in required if name not in (*given_by_place, *named)]
    if len(args) > len(placed):
        problem = "too many positional arguments"
    elif twice:
        problem = f"multiple values for argument {twice[0]!r}"
    else:
        problem = f"missing a required argument: {missing[0]!r}"
        names = required
    use = ", ".join(name for name in names if name not in OF_METHODS)
    raise InputError(f"{title_of(declared)}: {problem}: give {use}") from None


def _given(
    annotations: Mapping[str, Any],
    values: Mapping[str, Any],
    in_call: Collection[str],
    parameters: Mapping[str, inspect.Parameter],
    of_group: bool,
) -> dict[str, Only | None]:
    """The arguments that were given, each with its mark `Only`; of a group of options, or a
    method, the fields that were.

    values     of all arguments, checked
    in_call    the names of those that the call has; others have their defaults
    of_group   the arguments are the fields of a group: those that have their defaults were not
               given
    """
    given: dict[str, Only | None] = {}
    for name, value in values.items():
        if name not in in_call or value is None or value is False:
            continue
        annotation = annotations.get(name)
        default = parameters[name].default
        if of_group and _equal(value, default):  # `replace` passes all fields
            continue
        fields_given = _fields_given(annotation, value, default)
        given |= fields_given
        if group_of(annotation) is None:
            given[name] = mark(annotation, Only)
        elif fields_given:
            given[name] = None  # its fields have the mark
        elif value is not default:
            given[name] = mark(annotation, Only)  # a group in which nothing is set
    return given


def _fields_given(annotation: Any, value: Any, default: Any) -> dict[str, Only | None]:
    """The fields of an argument that differ from their defaults, each with its mark `Only`, or
    else that of the argument.

    The fields of a group have the defaults of the parameter's own default; those of methods the
    defaults of their classes.
    """
    group = group_of(annotation)
    if group is not None and isinstance(value, group):
        objects = [value]
        usual = default if isinstance(default, group) else group()
        defaults = vars(usual)
    elif mark(annotation, TakesMethod) is not None:
        objects = list(value) if isinstance(value, tuple) else [value]
        defaults = {}
    else:
        return {}
    of_argument = mark(annotation, Only) if group is not None else None
    given: dict[str, Only | None] = {}
    for one in objects:
        if not is_dataclass(one):
            continue
        annotations_of_fields = hints(one.__class__)
        for field in fields(one):
            own = getattr(one, field.name)
            if not _equal(own, defaults.get(field.name, field.default)):
                given[field.name] = mark(annotations_of_fields[field.name], Only) or of_argument
    return given


def _equal(value: object, default: object) -> bool:
    """Whether a value is its default; an array, which compares item by item, is none."""
    try:
        return bool(value == default)
    except (TypeError, ValueError, RuntimeError):
        return False


def _refuse_conflicts(given: Mapping[str, Only | None], of_group: bool) -> None:
    """Raise for the first argument that its mark `Only` rules out.

    of_group   the arguments are the fields of a group by itself: the arguments beside which they
               mean something may be those of the function that takes the group
    """
    for name, only in given.items():
        if only is None:
            continue
        if of_group:
            only = replace(only, beside=())
        only.refuse(name, given)
