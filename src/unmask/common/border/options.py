"""Options: what a flat surface (command line, page, harness) can set of a function.

a parameter                    is an option
a group of related options     a dataclass with defaults: its fields are options
a choice of methods            a parameter marked with `TakesMethod`: its name is an option, and so
                               is each field of each method
a model                        a parameter marked with `Loaded`: its name is an option, and so
                               is each option of loading it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, cast

from unmask.common.border.declarations import Declared, documentation, hints
from unmask.common.border.marks import (
    PYTHON_ONLY,
    Loaded,
    Only,
    TakesMethod,
    Written,
    group_of,
    mark,
    marks,
)
from unmask.common.border.names import OF_OTHER_METHODS, Meant, meant_by
from unmask.common.errors import InputError, argument_name

HIDDEN = ("progress", "partial", "ready", "sink")
"""Arguments of Python alone: functions that are called as work goes on."""
OF_METHODS = ("self", "cls")
"""Parameters that no caller gives."""


@dataclass(frozen=True)
class Option:
    """One value that a flat surface can set.

    name         of the parameter, or of the field; annotation: its type, with bounds
    default      None where several methods have different ones; required: it has none
    help         from the docstring that declares it
    parameter    the parameter that holds it, or its name where it is one
    readers      the methods that have the field; empty for parameters and plain groups
    owner        the dataclass that declares it; None for parameters
    positional   it has a place, not a name
    only         beside which options it means something, or without which
    loading      it is a model, or an option of loading one
    """

    name: str
    annotation: Any
    default: Any
    help: str
    parameter: str
    readers: tuple[str, ...] = ()
    owner: type | None = None
    positional: bool = False
    required: bool = False
    only: Only | None = None
    loading: bool = False

    @property
    def condition(self) -> str:
        """Beside which options it means something, or without which, in words: " [with positions]",
        with the names as a surface writes them.
        """
        return "" if self.only is None else f" [{self.only.in_words}]"

    @property
    def written(self) -> Written:
        """How flat surfaces write it."""
        return mark(self.annotation, Written) or Written()


@cache
def options(function: Declared) -> tuple[Option, ...]:
    """All that a flat surface can set: parameters, and in the place of dataclasses and methods
    their fields.

    Raises TypeError if the function is declared wrongly.
    """
    listed: list[Option] = []
    annotations = hints(function)
    helps = documentation(function)
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        annotation = annotations.get(parameter.name, Any)
        if parameter.name in HIDDEN or PYTHON_ONLY in marks(annotation):
            continue
        group = group_of(annotation)
        if group is not None:
            only = mark(annotation, Only)
            of_group = _fields({"": group}, parameter.name, parameter.default)
            listed += [replace(option, only=option.only or only) for option in of_group]
            continue
        listed.append(_of_parameter(parameter, place, annotation, helps.get(parameter.name, "")))
        method = mark(annotation, TakesMethod)
        if method is not None and method.options:
            listed += _fields(method.classes, parameter.name)
        loaded = mark(annotation, Loaded)
        if loaded is not None:
            _name, *of_loading = _fields({"": loaded.spec_class}, parameter.name)
            listed += [replace(option, loading=True) for option in of_loading]
    _refuse_wrong_declaration(function, listed)
    return tuple(listed)


def _of_parameter(
    parameter: inspect.Parameter, place: int, annotation: Any, help_text: str
) -> Option:
    """The option of a parameter. The first one has a place and no name, the others a name and no
    place, unless the annotation or the signature says otherwise.
    """
    written = mark(annotation, Written) or Written()
    by_name = parameter.kind is parameter.KEYWORD_ONLY or written.named
    required = parameter.default is parameter.empty
    return Option(
        name=parameter.name,
        annotation=annotation,
        default=None if required else parameter.default,
        help=help_text,
        parameter=parameter.name,
        positional=(place == 0 or written.placed) and not by_name,
        required=required,
        only=mark(annotation, Only),
        loading=mark(annotation, Loaded) is not None,
    )


def _fields(classes: Mapping[str, type], parameter: str, instance: Any = None) -> list[Option]:
    """The fields of methods, by name, or of one group (""), each once, with the methods that
    have it.

    Their defaults are those of the parameter's own default, where that is an `instance` of the
    group.
    """
    merged: dict[str, Option] = {}
    for method, cls in classes.items():
        annotations = hints(cls)
        helps = documentation(cls)
        for field in fields(cls):
            name = field.name
            annotation = annotations[name]
            if PYTHON_ONLY in marks(annotation):
                continue
            default = field.default
            if isinstance(instance, cls):
                default = getattr(instance, name)
            readers = (method,) if method else ()
            if name in merged:  # another method has it, too
                first = merged[name]
                merged[name] = replace(
                    first,
                    default=default if default == first.default else None,
                    readers=(*first.readers, *readers),
                )
            else:
                merged[name] = Option(
                    name=name,
                    annotation=annotation,
                    default=default,
                    help=helps.get(name, ""),
                    parameter=parameter,
                    readers=readers,
                    owner=cls,
                    only=mark(annotation, Only),
                )
    return list(merged.values())


def _refuse_wrong_declaration(function: Declared, listed: Sequence[Option]) -> None:
    """Raise TypeError if two options have one name, or a mark `Only` names no argument."""
    name_of_function = getattr(function, "__qualname__", repr(function))
    seen: dict[str, Option] = {}
    for option in listed:
        if option.name in seen:
            raise TypeError(
                f"{name_of_function} declares option {option.name} twice: in parameter"
                f" {seen[option.name].parameter} and in parameter {option.parameter}"
            )
        seen[option.name] = option
    known = {*seen, *inspect.signature(function).parameters}
    for option in listed:
        if option.only is None:
            continue
        for other in (*option.only.beside, *option.only.without):
            if other not in known:
                raise TypeError(
                    f"{name_of_function} declares {option.name} beside or without {other}, which"
                    " is no argument of it"
                )


# ---- from options to arguments ----


def arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from values of its `options`; an option that the chosen
    method does not have is refused.
    """
    known = {option.name: option for option in options(function)}
    of_parameters: dict[str, Any] = {}
    of_fields: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_argument(function, name)
        option = known[name]
        if option.owner is None:  # a parameter of its own
            of_parameters[name] = value
        else:  # a field of the object that this parameter holds
            of_fields.setdefault(option.parameter, {})[name] = value
    annotations = hints(function)
    parameters = inspect.signature(function).parameters
    for parameter, changes in of_fields.items():
        of_parameters[parameter] = _with_fields(
            parameter,
            annotations[parameter],
            of_parameters.get(parameter),
            parameters[parameter].default,
            changes,
        )
    return of_parameters


def _with_fields(
    parameter: str, annotation: Any, value: Any, default: Any, changes: Mapping[str, Any]
) -> Any:
    """The object that a parameter takes: its value, or else its default, with some fields
    changed.
    """
    method = mark(annotation, TakesMethod)
    if method is not None:
        chosen = default if value is None else value
        if chosen is None:
            chosen = method.meant_by(changes)
        if chosen is None:  # the function chooses the method itself
            raise _without_method(method, parameter, next(iter(changes)))
        methods = method.accepted(parameter, chosen)
        is_given = value is not None
        return _methods_with_fields(method, parameter, methods, changes, is_given)
    loaded = mark(annotation, Loaded)
    if loaded is not None:
        return loaded.with_options(parameter, value, changes)
    group = group_of(annotation)
    assert group is not None  # the owner of a field is a method, a way of loading or a group
    if isinstance(default, group):
        return replace(cast(Any, default), **changes)
    return group(**changes)  # a group that is not used unless one of its options is given


def _without_method(method: TakesMethod, parameter: str, option: str) -> InputError:
    """The error of an option of a method where no method was given; what was not given is named in
    the advice only.
    """
    readers = [name for name, cls in method.classes.items() if option in hints(cls)]
    return InputError(
        "was given, and no method that uses it",
        argument=option,
        use=f"give {argument_name(parameter)} {' or '.join(readers)}, or leave it out",
    )


def _methods_with_fields(
    method: TakesMethod, parameter: str, methods: Any, changes: Mapping[str, Any], is_given: bool
) -> Any:
    """The methods with these values of their fields; each field must belong to one of them.

    is_given   the call names the methods; else they are the parameter's default
    """
    several = methods if method.several else (methods,)
    for name in changes:
        if any(name in hints(one.__class__) for one in several):
            continue
        chosen = ", ".join(one.name for one in several)
        if is_given:
            chosen = f"{argument_name(parameter)} {chosen}"
        readers = [reader for reader, cls in method.classes.items() if name in hints(cls)]
        use = f"leave it out, or use {' or '.join(readers)}"
        for meant in OF_OTHER_METHODS.get(name, ()):
            if any(meant in hints(one.__class__) for one in several):
                use = f"did you mean {argument_name(meant)}?"
                break
        raise InputError(
            f"was given, which {chosen} does not use",
            argument=name,
            use=use,
        )
    changed = []
    for one in several:
        own = {name: value for name, value in changes.items() if name in hints(one.__class__)}
        changed.append(replace(one, **own))
    return tuple(changed) if method.several else changed[0]


def refuse_conflicts_of_fields(function: Declared, values: Mapping[str, Any]) -> None:
    """Raise for the first field of a group that its mark `Only` rules out beside the other options.

    `checked` does this too, but it reads the fields from an object, which does not show whether a
    field has its default because it was left out, or because the default was typed.
    """
    given = [name for name, value in values.items() if value is not None and value is not False]
    for option in options(function):
        if option.name in given and option.owner is not None and option.only is not None:
            option.only.refuse(option.name, given)


def unknown_argument(declared: Declared, name: str) -> InputError:
    """The error that names what was meant: a field of a group or method, another verb, a familiar
    argument, or the nearest.
    """
    parameters = [one for one in inspect.signature(declared).parameters if one not in OF_METHODS]
    flat: dict[str, Option] = {}
    if not isinstance(declared, type):
        flat = {option.name: option for option in options(declared)}
    title = title_of(declared)
    if name in flat:
        option = flat[name]
        owner = getattr(option.owner, "__name__", "")
        return InputError(
            f"{name} is not an argument of {title}: give {option.parameter}=unmask.{owner}"
            f"({name}=...)"
        )
    meant = meant_by(title, name, [*parameters, *flat])
    problem = f"{name} is not an argument of {title}"
    if meant is None:
        return InputError(f"{problem}: use {', '.join(parameters)}")
    return InputError(problem, use=_in_python(meant, name, flat))


def _in_python(meant: Meant, name: str, flat: Mapping[str, Option]) -> str:
    """What to give in the place of an argument `name`, in Python.

    flat   the options of the function that was called, by name
    """
    if meant.advice:
        return meant.advice
    if meant.verb and meant.argument in ("", name):
        return f"use unmask.{meant.verb}"
    if meant.verb:
        return f"use {meant.argument} of unmask.{meant.verb}"
    value = "" if meant.value is None else f"={meant.value!r}"
    option = flat.get(meant.argument)
    if option is not None and option.owner is not None and not option.readers:
        group = f"{option.parameter}=unmask.{option.owner.__name__}"
        return f"did you mean {group}({meant.argument}{value or '=...'})?"
    return f"did you mean {meant.argument}{value}?"


def title_of(declared: Declared) -> str:
    """The name of a function, or of a class, in messages."""
    name: str = declared.__qualname__
    return name.removesuffix(".__init__")
