"""Options: the values that a flat surface can set. Such a surface (the command line, the page, a
harness) knows names and values, and no objects.

`options` lists the options of a function, from its parameters:

parameter                          its options
marked with `TakesMethod`          the method's name, and the fields of every method it can take
marked with `Loaded`               the model's name, and the options of loading it
a dataclass of related options     the fields of the dataclass, which is called a group here
any other                          the parameter itself

`arguments` is the way back: it makes the function's arguments from the values of its options.
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

HIDDEN = ("progress", "partial", "watcher", "look", "ready", "sink")
"""Parameters that only Python can give: functions that are called as work goes on."""
OF_METHODS = ("self", "cls")
"""First parameters of the methods of a class. Python passes them, and no caller does."""


@dataclass(frozen=True)
class Option:
    """One value that a flat surface can set.

    name         of the parameter, or of the field
    annotation   its type, with bounds and marks
    default      None if there is none, or if the methods that have the field differ in it
    help         from the docstring that declares it
    parameter    the name of the parameter that takes it, or the object that it is a field of
    readers      the methods that have the field; empty for parameters and groups
    owner        the dataclass that declares the field; None for parameters
    positional   it is given by place, not by name
    required     it has to be given
    only         the options with which, or without which, it can be given
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
        """`only` in words, such as " [with positions]", for the help; empty if there is none.

        The names in it are marked for a surface to write (see `argument_name`).
        """
        return "" if self.only is None else f" [{self.only.in_words}]"

    @property
    def written(self) -> Written:
        """How flat surfaces write it, by its mark or by default."""
        return mark(self.annotation, Written) or Written()


@cache
def options(function: Declared) -> tuple[Option, ...]:
    """The options of a function, in the order of its parameters.

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
            listed += _of_group(group, parameter, annotation)
            continue
        listed.append(_of_parameter(parameter, place, annotation, helps.get(parameter.name, "")))
        method = mark(annotation, TakesMethod)
        if method is not None and method.options:
            listed += _of_methods(method.classes, parameter.name)
        loaded = mark(annotation, Loaded)
        if loaded is not None:
            # The first field is the model's name, whose option is the parameter's own.
            _name, *of_loading = _of_fields(loaded.spec_class, parameter.name)
            listed += [replace(option, loading=True) for option in of_loading]
    _refuse_wrong_declaration(function, listed)
    return tuple(listed)


def _of_parameter(
    parameter: inspect.Parameter, place: int, annotation: Any, help_text: str
) -> Option:
    """The option of a parameter.

    The first parameter (`place` 0) is given by place, and the others by name, unless the annotation
    or the signature says otherwise.
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


def _of_group(group: type, parameter: inspect.Parameter, annotation: Any) -> list[Option]:
    """The options of a parameter that takes a group: the fields of the group.

    Their defaults are those of the parameter's own default, if it is an object of the group, and
    else those of the class. A field without a mark `Only` has that of the parameter.
    """
    found = []
    for option in _of_fields(group, parameter.name):
        default = option.default
        if isinstance(parameter.default, group):
            default = getattr(parameter.default, option.name)
        only = option.only or mark(annotation, Only)
        found.append(replace(option, default=default, only=only))
    return found


def _of_methods(classes: Mapping[str, type], parameter: str) -> list[Option]:
    """The options of a parameter that takes a method: the fields of all methods.

    A field that several methods have is one option.

    classes   of the methods, by their names
    """
    merged: dict[str, Option] = {}
    for method, cls in classes.items():
        for option in _of_fields(cls, parameter):
            name = option.name
            if name not in merged:
                merged[name] = replace(option, readers=(method,))
                continue
            first = merged[name]
            default = option.default
            if default != first.default:  # no single default is true of all of its methods
                default = None
            merged[name] = replace(first, default=default, readers=(*first.readers, method))
    return list(merged.values())


def _of_fields(cls: type, parameter: str) -> list[Option]:
    """The fields of a dataclass as options, with the defaults of the class.

    parameter   takes an object of the class
    """
    annotations = hints(cls)
    helps = documentation(cls)
    found = []
    for field in fields(cls):
        annotation = annotations[field.name]
        if PYTHON_ONLY in marks(annotation):
            continue
        found.append(
            Option(
                name=field.name,
                annotation=annotation,
                default=field.default,
                help=helps.get(field.name, ""),
                parameter=parameter,
                owner=cls,
                only=mark(annotation, Only),
            )
        )
    return found


def _refuse_wrong_declaration(function: Declared, listed: Sequence[Option]) -> None:
    """Raise TypeError if two options have the same name, or if a mark `Only` names something that
    is neither an option nor a parameter.
    """
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
    """The arguments of a function, made from values of its `options`.

    Raises InputError for an unknown name, and for an option that the chosen method does not have.

    values   by the names of the options
    """
    known = {option.name: option for option in options(function)}
    of_parameters: dict[str, Any] = {}  # values, by parameter
    of_fields: dict[str, dict[str, Any]] = {}  # values by field, by the parameter of the object
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
            parameter=parameter,
            annotation=annotations[parameter],
            value=of_parameters.get(parameter),
            default=parameters[parameter].default,
            changes=changes,
        )
    return of_parameters


def _with_fields(
    *, parameter: str, annotation: Any, value: Any, default: Any, changes: Mapping[str, Any]
) -> Any:
    """The object that a parameter takes (methods, a model, a group), with some fields changed.

    value     of the parameter in the call; None if the call has none
    default   of the parameter
    changes   the new values of fields, by name
    """
    method = mark(annotation, TakesMethod)
    if method is not None:
        chosen = value
        if chosen is None:
            chosen = default
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
    return group(**changes)  # the default is None: without an option there is no group


def _without_method(method: TakesMethod, parameter: str, option: str) -> InputError:
    """The error of an option of a method in a call that names no method.

    The message names the parameter of the method only in its advice, since the call does not have
    it.
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
    """The methods, with these values of their fields.

    Raises InputError for a field that none of them has.

    methods    a tuple if the parameter takes several, and else one method
    changes    the new values, by field
    is_given   the call names the methods; else they are the parameter's default
    """
    chosen = methods if method.several else (methods,)
    for name in changes:
        if not any(_has_field(one, name) for one in chosen):
            raise _unused_option(method, parameter, chosen, name, is_given)
    changed = []
    for one in chosen:
        own = {name: value for name, value in changes.items() if _has_field(one, name)}
        changed.append(replace(one, **own))
    return tuple(changed) if method.several else changed[0]


def _has_field(made: Any, name: str) -> bool:
    """Whether the class of an object declares a field."""
    return name in hints(made.__class__)


def _unused_option(
    method: TakesMethod, parameter: str, chosen: Sequence[Any], name: str, is_given: bool
) -> InputError:
    """The error of an option that none of the chosen methods has.

    The advice is to use a method that has it; or another option, if a chosen method has one that
    may have been meant.
    """
    described = ", ".join(one.name for one in chosen)
    if is_given:
        described = f"{argument_name(parameter)} {described}"
    readers = [reader for reader, cls in method.classes.items() if name in hints(cls)]
    use = f"leave it out, or use {' or '.join(readers)}"
    for meant in OF_OTHER_METHODS.get(name, ()):
        if any(_has_field(one, meant) for one in chosen):
            use = f"did you mean {argument_name(meant)}?"
            break
    return InputError(f"was given, which {described} does not use", argument=name, use=use)


def refuse_conflicts_of_fields(function: Declared, values: Mapping[str, Any]) -> None:
    """Raise for the first field that its mark `Only` does not allow beside the other options.

    `checked` refuses these, too, but it gets an object. The object does not show whether a field
    has its default because it was left out, or because the default was typed.
    """
    given = [name for name, value in values.items() if value is not None and value is not False]
    for option in options(function):
        if option.name in given and option.owner is not None and option.only is not None:
            option.only.refuse(option.name, given)


def unknown_argument(declared: Declared, name: str) -> InputError:
    """The error of an argument that a function or class does not have, with what was meant.

    What was meant is a field of one of its groups or methods, another verb, an argument that other
    tools call so, or the argument with the nearest name.
    """
    parameters = [one for one in inspect.signature(declared).parameters if one not in OF_METHODS]
    flat: dict[str, Option] = {}  # options by name; the fields of a class are its parameters
    if not isinstance(declared, type):
        flat = {option.name: option for option in options(declared)}
    title = title_of(declared)
    if name in flat:  # a field, which Python gives inside an object
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
    """Advice in Python's form: what to give in the place of an argument `name`.

    flat   the options of the function that was called, by name
    """
    if meant.advice:
        return meant.advice
    if meant.verb:
        if meant.argument in ("", name):  # the whole verb, or its argument of the same name
            return f"use unmask.{meant.verb}"
        return f"use {meant.argument} of unmask.{meant.verb}"
    value = ""
    if meant.value is not None:
        value = f"={meant.value!r}"
    option = flat.get(meant.argument)
    if option is not None and option.owner is not None and not option.readers:  # of a group
        group = f"{option.parameter}=unmask.{option.owner.__name__}"
        return f"did you mean {group}({meant.argument}{value or '=...'})?"
    return f"did you mean {meant.argument}{value}?"


def title_of(declared: Declared) -> str:
    """The name of a function, or of a class, in messages."""
    name: str = declared.__qualname__
    return name.removesuffix(".__init__")
