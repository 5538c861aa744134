"""The check of a whole call.

Every public function, and every dataclass of options, goes through `checked`. Our own code makes
objects of these dataclasses with `trusted` and `changed`, which skip the check.
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
    """The function with a check: it raises InputError for arguments that its signature does not
    allow.

    The function gets plain values for those of other libraries: an int for a whole number of NumPy
    or torch, a list for an array.

    declared   the class, if the function is its __init__: the annotations are those of the class
    """
    signature = inspect.signature(function)
    annotated = declared or function

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:  # its text is Python's own and may change: the reason is found again
            _refuse_unbound(annotated, signature, args, named)
        in_call = set(bound.arguments)  # before the loop adds the names of default methods
        annotations = hints(annotated)
        model_mark = mark(annotations.get("model"), Loaded)
        for name, parameter in signature.parameters.items():
            if name not in annotations:
                continue
            annotation = annotations[name]
            if name in bound.arguments:
                value = bound.arguments[name]
            elif isinstance(parameter.default, str) and mark(annotation, TakesMethod) is not None:
                value = parameter.default  # such as "mh": the function gets the method itself
            else:
                continue
            if name != "model" and model_mark is not None and model_mark.is_loaded(value):
                raise InputError(
                    f"{shown(value)} is a model", argument=name, use="give it as model="
                )
            bound.arguments[name] = accepted(name, value, annotation)
        of_class = isinstance(annotated, type)
        given = _given(
            annotations=annotations,
            values=bound.arguments,
            in_call=in_call,
            parameters=signature.parameters,
            of_class=of_class,
        )
        _refuse_conflicts(given, of_class)
        return function(*bound.args, **bound.kwargs)

    call.__doc__ = with_shared_help(function)
    if declared is None:  # a class has its own signature, from `settings`
        shown_signature = readable_signature(signature, function)
        call.__signature__ = shown_signature  # type: ignore[attr-defined]
    return cast(Function, call)


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """Make a class a frozen dataclass of options, which checks its values by their annotations."""
    frozen = cast(Any, dataclass(frozen=True)(cls))
    frozen.__signature__ = SignatureOfClass(frozen)
    frozen.__init__ = checked(frozen.__init__, frozen)
    return cast(Class, frozen)


def trusted(cls: type[Made], **values: Any) -> Made:
    """An object of a frozen dataclass, made of values from our own code without a check.

    Its `__init__` and its `__post_init__`, which check the values of users, do not run. A field
    without a value has its default.
    """
    made = object.__new__(cls)
    for field in fields(cast(Any, cls)):
        if field.name in values:
            value = values.pop(field.name)
        else:
            value = _default_of(field)
        object.__setattr__(made, field.name, value)  # the class is frozen
    if values:  # those of the fields were taken out
        raise TypeError(f"{cls.__name__} has no field {next(iter(values))}")
    return made


def changed(made: Made, **changes: Any) -> Made:
    """A copy with some fields changed: `dataclasses.replace` for our own code, without a check."""
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
    """Raise the error of a call whose arguments do not fit the signature.

    args    the arguments by place
    named   the arguments by name
    """
    parameters = signature.parameters
    for name in named:
        if name not in parameters:
            raise unknown_argument(declared, name)
    placed = [one.name for one in parameters.values() if one.kind is not one.KEYWORD_ONLY]
    given_by_place = placed[: len(args)]
    required = [one.name for one in parameters.values() if one.default is one.empty]
    twice = [name for name in given_by_place if name in named]
    missing = [name for name in required if name not in (*given_by_place, *named)]
    advised = list(parameters)
    if len(args) > len(placed):
        problem = "too many positional arguments"
    elif twice:
        problem = f"multiple values for argument {twice[0]!r}"
    else:
        problem = f"missing a required argument: {missing[0]!r}"
        advised = required
    use = ", ".join(name for name in advised if name not in OF_METHODS)
    raise InputError(f"{title_of(declared)}: {problem}: give {use}") from None


def _given(
    *,
    annotations: Mapping[str, Any],
    values: Mapping[str, Any],
    in_call: Collection[str],
    parameters: Mapping[str, inspect.Parameter],
    of_class: bool,
) -> dict[str, Only | None]:
    """The names that a call gives, for `_refuse_conflicts`: each argument and, in a group of
    options or a method, each field that is set. Each has its mark `Only`.

    An argument that is None or False is not given.

    values     of all arguments, checked
    in_call    the names of the arguments in the call; the others have their defaults
    of_class   the call makes an object of a class of options: the arguments are its fields
    """
    given: dict[str, Only | None] = {}
    for name, value in values.items():
        if name not in in_call or value is None or value is False:
            continue
        annotation = annotations.get(name)
        default = parameters[name].default
        if of_class and _equal(value, default):  # `dataclasses.replace` passes unset fields, too
            continue
        set_fields = _set_fields(annotation, value, default)
        given |= set_fields
        if group_of(annotation) is None:
            given[name] = mark(annotation, Only)
        elif set_fields:
            given[name] = None  # its fields have the mark
        elif value is not default:
            given[name] = mark(annotation, Only)  # a group in which nothing is set
    return given


def _set_fields(annotation: Any, value: Any, default: Any) -> dict[str, Only | None]:
    """The fields of an argument that differ from their defaults, each with its mark `Only`.

    The defaults of a group are those of the parameter's own default, if that is an object of the
    group, and else those of the class. A field of a group without a mark has that of the argument.
    An argument that is neither a group nor a method has no fields.
    """
    group = group_of(annotation)
    if group is not None and isinstance(value, group):
        usual = default if isinstance(default, group) else group()
        of_argument = mark(annotation, Only)
        changed_fields = _changed_fields(value, vars(usual))
        return {name: only or of_argument for name, only in changed_fields.items()}
    if mark(annotation, TakesMethod) is None:
        return {}
    found: dict[str, Only | None] = {}
    methods = value if isinstance(value, tuple) else (value,)
    for method in methods:
        if is_dataclass(method):
            found |= _changed_fields(method, {})
    return found


def _changed_fields(made: Any, defaults: Mapping[str, Any]) -> dict[str, Only | None]:
    """The fields of an object that differ from their defaults, each with its mark `Only`.

    A field that was set to its default is not told from one that was left out. The two objects are
    equal, so a call does the same with both; and `dataclasses.replace` sets every field.

    defaults   by field; a field without one here has the default of its class
    """
    annotations = hints(made.__class__)
    found: dict[str, Only | None] = {}
    for field in fields(made):
        value = getattr(made, field.name)
        default = defaults.get(field.name, field.default)
        if not _equal(value, default):
            found[field.name] = mark(annotations[field.name], Only)
    return found


def _equal(value: object, default: object) -> bool:
    """Whether a value is its default; False where the two cannot be compared, such as arrays."""
    try:
        return bool(value == default)
    except (TypeError, ValueError, RuntimeError):
        return False


def _refuse_conflicts(given: Mapping[str, Only | None], of_class: bool) -> None:
    """Raise for the first argument that its mark `Only` does not allow beside the others.

    given      the names in the call, with their marks
    of_class   the arguments are the fields of a class of options
    """
    for name, only in given.items():
        if only is None:
            continue
        if of_class:
            # What the field needs beside it may be an argument of the function that takes the
            # object. That function's own check sees both.
            replace(only, beside=()).refuse(name, given)
        else:
            only.refuse(name, given)
