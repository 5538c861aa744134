"""One signature: a public function is declared once, and every surface reads its signature and
docstring.

    types, defaults     the signature; bounds are annotated_types' `Interval`, choices `Literal`
    help                the docstring's section "Parameters"
    related options     a frozen dataclass (`settings`): in Python an object, on flat surfaces
                        its fields
    a choice of methods a parameter marked with `Method`: in Python an object or its name, on
        flat surfaces name and fields

`checked` holds a call of Python to the signature. `options` lists what a flat surface (command
line, page, harness) can set, `arguments` turns values of these options into arguments of the
function. Reading a signature loads neither torch nor pydantic.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from unmask.common.checks import one_of, plain, shown
from unmask.common.errors import InputError, argument_name

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

FAMILIAR = {
    **dict.fromkeys(("top_k", "k", "n"), "top"),
    **dict.fromkeys(("num_samples", "num_return_sequences"), "chains"),
    **dict.fromkeys(("metric", "metrics"), "score"),
    **dict.fromkeys(("method", "construction"), "joint"),
    **dict.fromkeys(("data", "sentences"), "texts"),
    **dict.fromkeys(("model_name", "checkpoint"), "model"),
    **dict.fromkeys(("output", "output_dir"), "out"),
    **{"prompt": "template", "out": "save"},
    **{
        "steps": "sweeps",
        "batch_size": "memory",
        "pairs": "minimal_pairs",
        "decoding_steps": "passes",
        "decoder": "kernel",
    },
}
"""Names that other tools have for arguments of ours; used only where the function has ours and
not theirs.
"""
HIDDEN = ("progress", "ready", "sink")
"""Arguments of Python alone: functions that are called as work goes on."""
PYTHON_ONLY = object()
"""Marks a parameter, or a field, that has no place on flat surfaces."""
UNIONS = (Union, UnionType)
IN_WORDS = {
    "Input should be ": "",
    "greater": "a number greater",
    "less": "a number less",
    "a valid integer": "a whole number",
    "a valid boolean": "True or False",
    "a valid string": "a text",
    "a valid ": "a ",
    "callable": "a function",
    "'str' instances are not allowed as a Sequence value": "a list",
    "'bytes' instances are not allowed as a Sequence value": "a list",
    "an instance of Sequence": "a list",
    "an instance of PathLike": "a path",
    "an instance of Tensor": "a tensor",
    "an instance of Randomness": "streams.at(sweep, step)",
    "an instance of ConditionalModel": "what unmask.load returned",
}
"""Words of pydantic's messages, and ours for them."""


def resolved(where: str) -> Any:
    """The object of a module, from "module:name"."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


# ---- marks: what an annotation says beyond a type ----


@dataclass(frozen=True)
class Method:
    """Marks a parameter that takes a method: an object of one of the classes of a registry, or
    its name.

    registry   "module:NAME" of a mapping from names to frozen dataclasses, loaded when first read
    several    the parameter takes a sequence of methods; on the command line their names have
               commas between them
    parse      "module:function" that makes the object of a name that is not in the registry, or
               raises InputError
    """

    registry: str
    several: bool = False
    parse: str = ""

    @property
    def classes(self) -> dict[str, type]:
        """The registry."""
        return cast("dict[str, type]", resolved(self.registry))

    def fitted(self, argument: str, value: Any) -> Any:
        """The method object of a name, or a tuple of several; objects of the registry's classes
        stay as they are.
        """
        if self.several:
            parts = (
                value.split(",")
                if isinstance(value, str)
                else value
                if isinstance(value, Iterable)
                else [value]
            )
            methods = tuple(replace(self, several=False).fitted(argument, part) for part in parts)
            if not methods:
                raise InputError(
                    f"{argument} is empty: name one or more of {', '.join(self.classes)}"
                )
            return methods
        if isinstance(value, tuple(self.classes.values())):
            return value
        name = value.strip() if isinstance(value, str) else value
        if isinstance(name, str) and name not in self.classes and self.parse:
            return resolved(self.parse)(name)
        return self.classes[one_of(argument, name, self.classes)]()


@dataclass(frozen=True)
class Loaded:
    """Marks a parameter that takes a model; flat surfaces also have the options of loading it.

    spec   "module:Class" of models that are not loaded yet: its first field is the model's name,
           the others are the options of loading
    kind   "module:Class" of loaded models
    """

    spec: str
    kind: str

    @property
    def spec_class(self) -> Any:
        """The class of models that are not loaded yet."""
        return resolved(self.spec)

    def is_loaded(self, value: Any) -> bool:
        """Whether a value is a loaded model. The module of its class is not imported for this: if
        nothing has imported it, no value can be of its class.
        """
        module, _, name = self.kind.partition(":")
        kind = getattr(sys.modules.get(module), name, None)
        return kind is not None and isinstance(value, kind)

    def fitted(self, argument: str, value: Any) -> Any:
        """A name, a folder, None, a model that is loaded or is not yet, or a function without
        arguments that loads one.
        """
        if value is None or isinstance(value, str | os.PathLike):
            return value
        if self.is_loaded(value) or isinstance(value, self.spec_class):
            return value
        if hasattr(value, "state_dict"):  # a network may be callable, too
            raise InputError(
                f"{type(value).__name__} is a network without its tokenizer",
                argument=argument,
                use="give unmask.MaskedLM(network, tokenizer)",
            )
        if not callable(value):
            raise InputError(
                f"{shown(value)} is not a model",
                argument=argument,
                use="give a name, a folder, or what unmask.load returned",
            )
        return value

    def with_options(self, argument: str, value: Any, options: Mapping[str, Any]) -> Any:
        """The model that `value` names, not loaded yet, with these options of loading."""
        if isinstance(value, self.spec_class):
            return replace(value, **options)
        if value is None or isinstance(value, str | os.PathLike):
            return self.spec_class(value, **options)
        raise InputError(
            f"says how a model is loaded, and {argument_name(argument)} is loaded already",
            argument=next(iter(options)),
            use="leave it out",
        )


@dataclass(frozen=True)
class Written:
    """How a flat surface writes a value, where its type does not say it.

    metavar   the value's name in the help, such as BLANK=WORDS
    repeat    the option may be repeated, and its value is a list
    words     how many words the option takes
    short     a one-letter name
    named     the first parameter, too, has a name and no place
    help      of every parameter with this annotation whose docstring says nothing of it
    """

    metavar: str = ""
    repeat: bool = False
    words: int = 1
    short: str = ""
    named: bool = False
    help: str = ""


@dataclass(frozen=True)
class Only:
    """Marks a parameter that means something beside some arguments only, or without others.

    A parameter is given if its value is neither None nor False.

    beside    the parameter can be given only if one of these is given
    without   the parameter cannot be given if one of these is
    """

    beside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def refuse(self, name: str, given: Collection[str]) -> None:
        """Raise if the parameter `name` cannot be used beside the arguments that were given."""
        for other in self.without:
            if other in given:
                raise InputError(
                    f"is not used with {argument_name(other)}",
                    argument=name,
                    use="leave one of the two out",
                )
        if self.beside and not any(other in given for other in self.beside):
            others = " or ".join(argument_name(other) for other in self.beside)
            raise InputError(
                f"is used only with {others}", argument=name, use=f"give {others}, or leave it out"
            )


def kinds(annotation: Any) -> list[Any]:
    """The types of a union, without marks, or the one type."""
    if get_origin(annotation) is Annotated:
        return kinds(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return [kind for member in get_args(annotation) for kind in kinds(member)]
    return [annotation]


def group_of(annotation: Any) -> type | None:
    """The dataclass of related options that a parameter takes, with or without None beside it.

    Each of its fields has a default: other dataclasses are values, such as a table.
    """
    if mark(annotation, Method) is not None:
        return None
    classes = [kind for kind in kinds(annotation) if kind is not type(None)]
    if len(classes) != 1 or not is_dataclass(classes[0]):
        return None
    if any(field.default is MISSING for field in fields(classes[0])):
        return None
    return cast(type, classes[0])


def marks(annotation: Any) -> list[Any]:
    """All that `Annotated` adds to a type and to its parts."""
    inside = [one for part in get_args(annotation) for one in marks(part)]
    return [*getattr(annotation, "__metadata__", ()), *inside]


def mark(annotation: Any, kind: type[Any]) -> Any:
    """The first mark of this kind; None without one."""
    return next((one for one in marks(annotation) if isinstance(one, kind)), None)


# ---- reading a signature ----


@dataclass(frozen=True)
class Option:
    """One value that a flat surface can set.

    name         of the parameter, or of the field; annotation: its type, with bounds
    default      None where several methods have different ones; required: it has none
    help         from the docstring that declares it
    parameter    the parameter that holds it, or its name where it is one
    readers      the methods that have the field; empty for parameters and plain groups
    owner        the dataclass, or function, that declares it; None for parameters
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
    owner: Any = None
    positional: bool = False
    required: bool = False
    only: Only | None = None
    loading: bool = False

    @property
    def written(self) -> Written:
        """How flat surfaces write it."""
        return mark(self.annotation, Written) or Written()


@cache
def hints(declared: Callable[..., Any]) -> dict[str, Any]:
    """The evaluated annotations of a function's parameters, or of a dataclass's fields."""
    function: Any = inspect.unwrap(declared)
    if isinstance(function, type):
        evaluated = get_type_hints(function, include_extras=True)
        return {field.name: evaluated[field.name] for field in fields(function)}
    written = {
        name: hint for name, hint in function.__annotations__.items() if name != "return"
    }  # results may load torch
    return get_type_hints(
        SimpleNamespace(__annotations__=written), function.__globals__, include_extras=True
    )


@cache
def documentation(declared: Callable[..., Any]) -> Mapping[str, str]:
    """The help of each parameter or field: of its annotation, or of the docstring, in a section
    "Parameters:" (name: help).
    """
    written = (
        {}
        if isinstance(declared, type)
        else {name: mark(hint, Written) for name, hint in hints(declared).items()}
    )
    helps = {name: one.help for name, one in written.items() if one is not None and one.help}
    for one in (
        reversed(declared.__mro__) if isinstance(declared, type) else [inspect.unwrap(declared)]
    ):
        text = inspect.cleandoc(
            vars(one).get("__doc__") or "" if isinstance(one, type) else one.__doc__ or ""
        )
        if section := re.search(r"^Parameters:\n((?: .*\n?)+)", text, re.MULTILINE):
            entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", section[1], re.MULTILINE)
            helps |= {name: " ".join(help.split()) for name, help in entries}
    return helps


def summary(declared: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(declared) or "").partition("\n\n")[0].split())


def description(declared: Callable[..., Any]) -> str:
    """The docstring between its first paragraph and its sections or examples."""
    text = (inspect.getdoc(declared) or "").partition("\n\n")[2]
    return re.split(r"^(?:Parameters:$|>>> )", text, maxsplit=1, flags=re.MULTILINE)[0].strip()


@cache
def options(function: Callable[..., Any]) -> tuple[Option, ...]:
    """All that a flat surface can set: parameters, and in the place of dataclasses and methods
    their fields.
    """
    listed: list[Option] = []
    annotations, helps = hints(function), documentation(function)
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        name, annotation = parameter.name, annotations.get(parameter.name, Any)
        if name in HIDDEN or PYTHON_ONLY in marks(annotation):
            continue
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        group = group_of(annotation)
        if group is not None:
            fields_of_group = _fields({"": group}, name, default)
            only = mark(annotation, Only)
            listed += [replace(field, only=field.only or only) for field in fields_of_group]
            continue
        method, loaded = mark(annotation, Method), mark(annotation, Loaded)
        written = mark(annotation, Written) or Written()
        positional = (
            number == 0 and parameter.kind is not parameter.KEYWORD_ONLY and not written.named
        )
        listed.append(
            Option(
                name,
                annotation,
                default,
                helps.get(name, ""),
                name,
                (),
                None,
                positional,
                required,
                only=mark(annotation, Only),
                loading=loaded is not None,
            )
        )
        listed += _fields(method.classes, name) if method is not None else []
        if loaded is not None:
            of_loading = _fields({"": loaded.spec_class}, name)[1:]  # the first is the model's name
            listed += [replace(one, loading=True) for one in of_loading]
    return tuple(listed)


def _fields(classes: Mapping[str, type], parameter: str, instance: Any = None) -> list[Option]:
    """The fields of methods, by name, or of one group (""), each once, with the methods that
    have it.

    Defaults are those of the `instance` that is the parameter's default, if there is one.
    """
    merged: dict[str, Option] = {}
    for reader, kind in classes.items():
        annotations, helps = hints(kind), documentation(kind)
        for field in fields(kind):
            name, annotation = field.name, annotations[field.name]
            default = field.default if instance is None else getattr(instance, name)
            first = merged.get(name) or Option(
                name,
                annotation,
                default,
                helps.get(name, ""),
                parameter,
                (),
                kind,
                only=mark(annotation, Only),
            )
            if PYTHON_ONLY not in marks(annotation):
                readers = (*first.readers, reader) if reader else ()
                merged[name] = replace(
                    first, default=default if default == first.default else None, readers=readers
                )
    return list(merged.values())


def arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from values of its `options`; an option that the chosen
    method does not have is refused.
    """
    annotations, parameters = hints(function), inspect.signature(function).parameters
    known = {option.name: option for option in options(function)}
    direct, inside = dict[str, Any](), dict[str, dict[str, Any]]()
    for name, value in values.items():
        if name not in known:
            raise unknown_argument(function, name)
        (direct if known[name].owner is None else inside.setdefault(known[name].parameter, {}))[
            name
        ] = value
    for parameter, changes in inside.items():
        annotation, default = annotations[parameter], parameters[parameter].default
        if (method := mark(annotation, Method)) is not None:
            methods = method.fitted(
                parameter, default if direct.get(parameter) is None else direct[parameter]
            )
            direct[parameter] = _with_fields(method, parameter, methods, changes)
        elif (loaded := mark(annotation, Loaded)) is not None:
            direct[parameter] = loaded.with_options(parameter, direct.get(parameter), changes)
        elif default is None:  # a group that is not used unless one of its options is given
            direct[parameter] = cast(type, group_of(annotation))(**changes)
        else:
            direct[parameter] = replace(default, **changes)
    return direct


def _with_fields(method: Method, parameter: str, methods: Any, changes: Mapping[str, Any]) -> Any:
    """The methods with these values of their fields; each field must belong to one of them."""
    several = methods if method.several else (methods,)
    for name in changes:
        if not any(name in hints(one.__class__) for one in several):
            names, readers = (
                [one.name for one in several],
                [n for n, kind in method.classes.items() if name in hints(kind)],
            )
            use = f"leave it out, or use {' or '.join(readers)}"
            raise InputError(
                f"{name} was given, which {parameter} {', '.join(names)} does not use: {use}"
            )
    changed = [
        replace(one, **{n: v for n, v in changes.items() if n in hints(one.__class__)})
        for one in several
    ]
    return tuple(changed) if method.several else changed[0]


# ---- checking a call ----


def checked(function: Function, declared: Callable[..., Any] | None = None) -> Function:
    """The function, which raises an InputError for arguments that its signature, or that of
    `declared`, does not allow.

    A value that means the same in another library becomes the plain one: whole numbers of NumPy
    and torch are int, arrays lists.
    """
    signature = inspect.signature(function)
    title = (declared or function).__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            for name in named:
                if name not in signature.parameters:
                    raise unknown_argument(declared or function, name) from None
            names = [
                one.name
                for one in signature.parameters.values()
                if "missing" not in str(error) or one.default is one.empty
            ]
            use = ", ".join(name for name in names if name not in ("self", "cls"))
            raise InputError(f"{title}: {error}: give {use}") from None
        annotations = hints(declared or function)
        of_model: Loaded | None = mark(annotations.get("model"), Loaded)
        for name, parameter in signature.parameters.items():
            annotation, value = annotations.get(name), bound.arguments.get(name, parameter.default)
            by_name = (
                isinstance(value, str) and mark(annotation, Method) is not None
            )  # also a default, such as "mh"
            if annotation is None or not (name in bound.arguments or by_name):
                continue
            if name != "model" and of_model is not None and of_model.is_loaded(value):
                raise InputError(f"{name} {shown(value)} is a model: give it as model=")
            bound.arguments[name] = fitted(name, value, annotation)
        _refuse_conflicts(annotations, bound.arguments, signature.parameters)
        return function(*bound.args, **bound.kwargs)

    head, section, entries = inspect.cleandoc(function.__doc__ or "").partition("\nParameters:\n")
    if section:  # with the help of shared annotations, so that Python's `help` shows it
        listed, gap, rest = entries.partition("\n\n")
        shared = [
            f"\n    {name}: {help}"
            for name, help in documentation(function).items()
            if f"    {name}: " not in listed
        ]
        call.__doc__ = f"{head}{section}{listed}{''.join(shared)}{gap}{rest}"
    return cast(Function, call)


def _refuse_conflicts(
    annotations: Mapping[str, Any],
    values: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
) -> None:
    """Raise for the first argument that a mark `Only` rules out.

    Of an argument that is a group of options, those options are given that differ from the
    parameter's own default.
    """
    given = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        group = group_of(annotations.get(name))
        default = parameters[name].default
        if group is not None and isinstance(value, group):
            usual = default if isinstance(default, group) else group()
            given += [
                field.name
                for field in fields(cast(Any, group))
                if getattr(value, field.name) != getattr(usual, field.name)
            ]
        if value is not default:
            given.append(name)
    for name in given:
        only = mark(annotations.get(name), Only)
        if only is not None:
            only.refuse(name, given)


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """A frozen dataclass of options, each held to its annotation when an object is made."""
    frozen = cast(Any, dataclass(frozen=True)(cls))
    frozen.__init__ = checked(frozen.__init__, frozen)
    return cast(Class, frozen)


def unknown_argument(function: Callable[..., Any], name: str) -> InputError:
    """The error that names the argument that was meant: the nearest, a familiar one, or a field
    of a group or method.
    """
    known = [
        parameter
        for parameter in inspect.signature(function).parameters
        if parameter not in ("self", "cls")
    ]
    flat = (
        {option.name: option for option in options(function)}
        if not isinstance(function, type)
        else {}
    )
    if name in flat:
        owner = getattr(flat[name].owner, "__name__", "")
        use = f"give {flat[name].parameter}=unmask.{owner}({name}=...)"
    else:
        near = nearest(name, [*known, *flat])
        use = f"did you mean {near}?" if near else f"use {', '.join(known)}"
    title = function.__qualname__.removesuffix(".__init__")
    return InputError(f"{name} is not an argument of {title}: {use}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: what other tools' `name` is called here, or the one that is
    written most like it.
    """
    names = list(known)
    return (
        FAMILIAR[name]
        if FAMILIAR.get(name) in names
        else next(iter(get_close_matches(name, names, n=1)), None)
    )


def fitted(name: str, value: Any, annotation: Any) -> Any:
    """`value` as the annotation has it; raises an InputError that says what was given and, in
    pydantic's words, what to give.
    """
    value = (
        plain(value) if getattr(value, "shape", None) == () else value
    )  # a number of NumPy or torch
    marked: Method | Loaded | None = mark(annotation, Method) or mark(annotation, Loaded)
    if marked is not None and (value is not None or isinstance(marked, Loaded)):
        return marked.fitted(name, value)
    from pydantic import ValidationError

    try:
        return _shaped(name, _adapter(annotation).validate_python(value), annotation)
    except ValidationError:
        value = plain(value)
    try:
        return _adapter(annotation).validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    choices = [
        choice
        for kind in kinds(annotation)
        if get_origin(kind) is Literal
        for choice in get_args(kind)
    ]
    if choices and not isinstance(value, int | float):
        one_of(name, value, choices)
    bounds = [
        error for error in errors if "than" in error["type"] or error["type"] == "finite_number"
    ]
    errors = [error for error in errors if any(isinstance(part, int) for part in error["loc"])][
        :1
    ] or errors  # of a list
    problem = "out of range" if bounds else "not valid"
    wanted = dict.fromkeys(_wanted(value, error) for error in bounds or errors)
    raise InputError(f"{name} {shown(value)} is {problem}: give {' or '.join(wanted)}")


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
    given = f"{name} of {value.dtype} and shape {tuple(value.shape)} is not valid"
    kind, shape = (
        annotation.__name__.partition("[")[0].lower(),
        ", ".join(annotation.dim_str.split()),
    )
    raise InputError(f"{given}: give a tensor of {kind} and shape ({shape})")


def _wanted(value: Any, error: Mapping[str, Any]) -> str:
    """The value that pydantic expected, such as "a whole number", and at which item of a list
    or key of a dictionary.
    """
    wanted = error["msg"]
    for words, ours in IN_WORDS.items():
        wanted = wanted.replace(words, ours, 1)
    if isinstance(value, Mapping) and (keys := [part for part in error["loc"] if part in value]):
        return f"{wanted} at {keys[0]!r}"
    place = next((part for part in reversed(error["loc"]) if isinstance(part, int)), None)
    return wanted if place is None else f"{wanted} as item {place + 1}"


@cache
def _adapter(annotation: Any) -> Any:
    """pydantic's validator of an annotation; numbers and texts are not taken for each other."""
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    return TypeAdapter(
        _for_pydantic(annotation), config=None if is_dataclass(annotation) else config
    )


def _for_pydantic(annotation: Any) -> Any:
    """The annotation with dataclasses of ours taken as they are (pydantic would look into their
    fields), and lists as tuples.
    """
    from pydantic import InstanceOf, Strict

    if isinstance(annotation, type) and is_dataclass(annotation):
        return InstanceOf[annotation]  # type: ignore[valid-type]
    if get_origin(annotation) in UNIONS:
        return Union[tuple(map(_for_pydantic, get_args(annotation)))]  # noqa: UP007
    if get_origin(annotation) is tuple:
        return Annotated[annotation, Strict(False)]
    return getattr(
        annotation, "array_type", annotation
    )  # jaxtyping compares shapes with those of the caller's arguments
