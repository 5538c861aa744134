"""One signature: a public function is declared once, and every surface reads its signature and docstring.

    types, defaults     the signature; bounds are annotated_types' `Interval`, choices `Literal`
    help                the docstring's section "Parameters"
    related options     a frozen dataclass (`settings`): in Python an object, on flat surfaces its fields
    a choice of methods a parameter marked with `Method`: in Python an object or its name, on flat surfaces name and fields

`checked` holds a call of Python to the signature. `options` lists what a flat surface (command line, page, harness) can set,
`arguments` turns values of these options into arguments of the function. Reading a signature loads neither torch nor pydantic.
"""

from __future__ import annotations

import builtins
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, partial, wraps
from importlib import import_module
from typing import Annotated, Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from unmask.checks import one_of, plain, shown
from unmask.errors import InputError

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
    **{"steps": "sweeps", "batch_size": "memory", "pairs": "minimal_pairs", "decoding_steps": "passes"},
}
"""Names that other tools have for arguments of ours; used only where the function has ours and not theirs."""
HIDDEN = ("progress", "ready", "sink")
"""Arguments of Python alone: functions that are called as work goes on."""
PYTHON_ONLY = object()
"""Marks a parameter, or a field, that has no place on flat surfaces."""
UNIONS = (Union, types.UnionType)
IN_WORDS = {
    "Input should be ": "",
    "greater": "a number greater",
    "less": "a number less",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "True or False",
    "a valid dictionary": "a dictionary",
    "a valid tuple": "a list",
    "callable": "a function",
    "'str' instances are not allowed as a Sequence value": "a list",
    "'bytes' instances are not allowed as a Sequence value": "a list",
    "an instance of Sequence": "a list",
    "an instance of PathLike": "a path",
}
"""Words of pydantic's messages, and ours for them."""
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def resolved(where: str) -> Any:
    """What "module:name" names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


# ---- marks: what an annotation says beyond a type ----


@dataclass(frozen=True)
class Method:
    """Marks a parameter that takes a method: an object of one of the classes of a registry, or its name.

    registry   "module:NAME" of a mapping from names to frozen dataclasses, loaded when first read
    several    the parameter takes a sequence of methods; on the command line their names have commas between them
    parse      "module:function" that makes the object of a name that is not in the registry, or raises InputError
    """

    registry: str
    several: bool = False
    parse: str = ""

    @property
    def classes(self) -> dict[str, type]:
        """The registry."""
        return cast("dict[str, type]", resolved(self.registry))

    def fitted(self, argument: str, value: Any) -> Any:
        """`value` as the function gets it: one method object, or a tuple of several."""
        if self.several:
            parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else plain(value)
            methods = tuple(self._object(argument, part) for part in (parts if isinstance(parts, Iterable) else [parts]))
            if not methods:
                raise InputError(f"{argument} is empty: name one or more of {', '.join(self.classes)}")
            return methods
        return self._object(argument, value)

    def _object(self, argument: str, value: Any) -> Any:
        """The method object of a name; objects of the registry's classes stay as they are."""
        if isinstance(value, tuple(self.classes.values())):
            return value
        if isinstance(value, str) and value not in self.classes and self.parse:
            return resolved(self.parse)(value)
        return self.classes[one_of(argument, value, self.classes)]()


@dataclass(frozen=True)
class Loaded:
    """Marks a parameter that takes a model; flat surfaces also have the options of the function that loads one.

    load   "module:function"; its first parameter is the model's name, the others are the options
    kind   the name of the class whose objects are taken, too
    """

    load: str
    kind: str

    def fitted(self, argument: str, value: Any) -> Any:
        """A name, a folder, None, a loaded model, or a function without arguments that loads one."""
        network = hasattr(value, "state_dict")
        if value is None or isinstance(value, str | os.PathLike) or any(b.__name__ == self.kind for b in type(value).__mro__):
            return value
        if callable(value) and not network:
            return value
        what = f"{type(value).__name__} is a network without its tokenizer" if network else f"{shown(value)} is not a model"
        use = "unmask.MaskedLM(network, tokenizer)" if network else "a name, a folder, or what unmask.load returned"
        raise InputError(f"{argument} {what}: give {use}")


@dataclass(frozen=True)
class Written:
    """How a flat surface writes a value, where its type does not say it.

    metavar   the value's name in the help, such as BLANK=WORDS
    read      "module:function" from the words that were typed to the value
    repeat    the option may be repeated, and `read` gets a list
    words     how many words the option takes
    short     a one-letter name
    named     the first parameter, too, has a name and no place
    help      of every parameter with this annotation whose docstring says nothing of it
    """

    metavar: str = ""
    read: str = ""
    repeat: bool = False
    words: int = 1
    short: str = ""
    named: bool = False
    help: str = ""


def marks(annotation: Any) -> tuple[Any, ...]:
    """What `Annotated` adds to a type."""
    return tuple(annotation.__metadata__) if get_origin(annotation) is Annotated else ()


def bare(annotation: Any) -> Any:
    """The type without marks."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def members(annotation: Any) -> list[Any]:
    """The members of a union, with their marks, or the annotation itself."""
    if get_origin(bare(annotation)) in UNIONS:
        return [one for member in get_args(bare(annotation)) for one in members(member)]
    return [annotation]


def kinds(annotation: Any) -> list[Any]:
    """The types of a union, without marks, or the one type."""
    return [bare(one) for one in members(annotation)]


def mark(annotation: Any, kind: type[Any]) -> Any:
    """The mark of this kind on the annotation, or on a member of its union; None without one."""
    marked = [annotation, *members(annotation)]
    return next((one for member in marked for one in marks(member) if isinstance(one, kind)), None)


# ---- reading a signature ----


@dataclass(frozen=True)
class Option:
    """One value that a flat surface can set.

    name         of the parameter, or of the field; annotation: its type, with bounds
    default      None where several methods have different ones; required: it has none
    help         from the docstring that declares it
    parameter    the parameter that holds it; its own name where it is one
    readers      the methods that have the field; empty for parameters and plain groups
    owner        the dataclass, or function, that declares it; None for parameters
    positional   it has a place, not a name
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

    @property
    def written(self) -> Written:
        """How flat surfaces write it."""
        return mark(self.annotation, Written) or Written()


class _Names(dict[str, Any]):
    """The names of a module; those that only a type checker knows are any value."""

    def __missing__(self, name: str) -> Any:
        return vars(builtins).get(name, Any)


@cache
def hints(declared: Callable[..., Any]) -> dict[str, Any]:
    """The evaluated annotations of a function's parameters, or of a dataclass's fields."""
    function: Any = inspect.unwrap(declared)
    evaluated = dict[str, Any]()
    for home in function.__mro__[::-1] if isinstance(function, type) else [function]:
        module = getattr(home, "__globals__", None) or vars(sys.modules[home.__module__])
        for name, hint in inspect.get_annotations(home).items():
            if name != "return" and "ClassVar" not in str(hint):
                evaluated[name] = eval(hint, module, _Names(module)) if isinstance(hint, str) else hint
    return evaluated


@cache
def documentation(declared: Callable[..., Any]) -> Mapping[str, str]:
    """The help of each parameter or field: the section "Parameters:" of the docstring (name: help), and those of the bases."""
    helps: dict[str, str] = {}
    for one in reversed(declared.__mro__) if isinstance(declared, type) else [inspect.unwrap(declared)]:
        text = inspect.cleandoc(vars(one).get("__doc__") or "" if isinstance(one, type) else one.__doc__ or "")
        if section := re.search(r"^Parameters:\n((?: .*\n?)+)", text, re.MULTILINE):
            entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", section[1], re.MULTILINE)
            helps |= {name: " ".join(help.split()) for name, help in entries}
    return helps


def summary(declared: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(declared) or "").partition("\n")[0]


def description(declared: Callable[..., Any]) -> str:
    """The docstring between its first line and its sections or examples."""
    text = (inspect.getdoc(declared) or "").partition("\n")[2]
    return re.split(r"^(?:Parameters:$|>>> )", text, maxsplit=1, flags=re.MULTILINE)[0].strip()


@cache
def options(function: Callable[..., Any]) -> tuple[Option, ...]:
    """All that a flat surface can set: parameters, and in the place of dataclasses and methods their fields."""
    listed: list[Option] = []
    annotations, helps = hints(function), documentation(function)
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        name, annotation = parameter.name, annotations.get(parameter.name, Any)
        if name in HIDDEN or PYTHON_ONLY in marks(annotation):
            continue
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        if is_dataclass(annotation):
            listed += _fields({"": cast(type, annotation)}, name, default)
            continue
        method, loaded = mark(annotation, Method), mark(annotation, Loaded)
        if method is not None and not isinstance(default, str | None):
            default = ",".join(one.name for one in default) if method.several else default.name
        written = mark(annotation, Written) or Written()
        positional = number == 0 and parameter.kind is not parameter.KEYWORD_ONLY and not written.named
        listed.append(Option(name, annotation, default, helps.get(name, written.help), name, (), None, positional, required))
        listed += _fields(method.classes, name) if method is not None else []
        if loaded is not None:
            load = resolved(loaded.load)
            listed += [replace(one, parameter=name, owner=load) for one in options(load)[1:]]
    return tuple(listed)


def _fields(classes: Mapping[str, type], parameter: str, instance: Any = None) -> list[Option]:
    """The fields of methods, by name, or of one group (""), each once, with the methods that have it.

    Defaults are those of the `instance` that is the parameter's default, if there is one.
    """
    merged: dict[str, Option] = {}
    for reader, kind in classes.items():
        annotations, helps = hints(kind), documentation(kind)
        for field in fields(kind):
            name, annotation = field.name, annotations[field.name]
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            default = default if instance is None else getattr(instance, name)
            first = merged.get(name) or Option(name, annotation, default, helps.get(name, ""), parameter, (), kind)
            if PYTHON_ONLY not in marks(annotation):
                readers = (*first.readers, reader) if reader else ()
                merged[name] = replace(first, default=default if default == first.default else None, readers=readers)
    return list(merged.values())


def arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from values of its `options`; an option that the chosen method does not have is refused."""
    annotations, parameters = hints(function), inspect.signature(function).parameters
    known = {option.name: option for option in options(function)}
    made, inside = dict[str, Any](), dict[str, dict[str, Any]]()
    for name, value in values.items():
        if name not in known:
            raise unknown_argument(function, name)
        (made if known[name].owner is None else inside.setdefault(known[name].parameter, {}))[name] = value
    for parameter, own in inside.items():
        annotation, default = annotations[parameter], parameters[parameter].default
        if (method := mark(annotation, Method)) is not None:
            methods = method.fitted(parameter, default if made.get(parameter) is None else made[parameter])
            made[parameter] = _with_fields(method, parameter, methods, own)
        elif (loaded := mark(annotation, Loaded)) is not None:
            made[parameter] = partial(resolved(loaded.load), made.get(parameter), **own)
        else:
            made[parameter] = replace(default, **own)
    return made


def _with_fields(method: Method, parameter: str, methods: Any, own: Mapping[str, Any]) -> Any:
    """The methods with these fields; each field must belong to one of them."""
    several = methods if method.several else (methods,)
    for name in own:
        if not any(name in hints(one.__class__) for one in several):
            names, readers = [one.name for one in several], [n for n, kind in method.classes.items() if name in hints(kind)]
            use = f"leave it out, or use {' or '.join(readers)}"
            raise InputError(f"{name} was given, which {parameter} {', '.join(names)} does not use: {use}")
    made = [replace(one, **{n: v for n, v in own.items() if n in hints(one.__class__)}) for one in several]
    return tuple(made) if method.several else made[0]


# ---- checking a call ----


def checked(function: Function, declared: Callable[..., Any] | None = None) -> Function:
    """The function, which raises an InputError for arguments that its signature, or that of `declared`, does not allow.

    A value that means the same in another library becomes the plain one: whole numbers of NumPy and torch are int, arrays lists.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            for name in named:
                if name not in signature.parameters:
                    raise unknown_argument(declared or function, name) from None
            use = ", ".join(name for name in signature.parameters if name not in ("self", "cls"))
            raise InputError(f"{(declared or function).__name__} has {error}: give {use}") from None
        annotations = hints(declared or function)
        for name, parameter in signature.parameters.items():
            annotation, value = annotations.get(name), bound.arguments.get(name, parameter.default)
            if annotation is None or parameter.kind in VARIADIC:
                continue
            if name not in bound.arguments and not (isinstance(value, str) and mark(annotation, Method)):
                continue
            if name != "model" and "model" in annotations and type(value).__name__ == "MaskedLM":
                raise InputError(f"{name} {shown(value)} is a model: give it as model=")
            bound.arguments[name] = fitted(name, value, annotation)
        return function(*bound.args, **bound.kwargs)

    return cast(Function, call)


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """A frozen dataclass of options, each held to its annotation when an object is made."""
    frozen = cast(Any, dataclass(frozen=True)(cls))
    frozen.__init__ = checked(frozen.__init__, frozen)
    return cast(Class, frozen)


def unknown_argument(function: Callable[..., Any], name: str) -> InputError:
    """The error that names the argument that was meant: the nearest, a familiar one, or a field of a group or method."""
    known = [parameter for parameter in inspect.signature(function).parameters if parameter not in ("self", "cls")]
    flat = {option.name: option for option in options(function)} if not isinstance(function, type) else {}
    if name in flat:
        use = f"give {flat[name].parameter}=unmask.{getattr(flat[name].owner, '__name__', '')}({name}=...)"
    elif FAMILIAR.get(name) in {*known, *flat}:
        use = f"use {FAMILIAR[name]}"
    else:
        near = get_close_matches(name, [*known, *flat], n=1)
        use = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}"
    return InputError(f"{name} is not an argument of {function.__name__}: {use}")


def fitted(name: str, value: Any, annotation: Any) -> Any:
    """`value` as the annotation has it; raises an InputError that says what was given and, in pydantic's words, what to give."""
    marked: Method | Loaded | None = mark(annotation, Method) or mark(annotation, Loaded)
    if marked is not None and (value is not None or isinstance(marked, Loaded)):
        return marked.fitted(name, value)
    from pydantic import ValidationError

    value = _plain(value, annotation)
    if isinstance(value, Iterator) and any(get_origin(kind) is Iterable for kind in kinds(annotation)):
        return value  # reading it here would use it up
    try:
        return _adapter(annotation).validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    choices = [choice for kind in kinds(annotation) if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices and not isinstance(value, int | float):
        one_of(name, value, choices)
    bounds = [error for error in errors if "than" in error["type"] or error["type"] == "finite_number"]
    errors = [error for error in errors if any(isinstance(part, int) for part in error["loc"])][:1] or errors  # of a list
    problem = "out of range" if bounds else "not valid"
    raise InputError(f"{name} {shown(value)} is {problem}: give {' or '.join(dict.fromkeys(map(_wanted, bounds or errors)))}")


def _wanted(error: Mapping[str, Any]) -> str:
    """What pydantic expected, such as "a whole number", and at which item of a list."""
    wanted = error["msg"]
    for words, ours in IN_WORDS.items():
        wanted = wanted.replace(words, ours, 1)
    place = next((part for part in reversed(error["loc"]) if isinstance(part, int)), None)
    return wanted if place is None else f"{wanted} as item {place + 1}"


@cache
def _adapter(annotation: Any) -> Any:
    """pydantic's validator of an annotation; numbers and texts are not taken for each other."""
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    array = getattr(annotation, "array_type", annotation)  # jaxtyping compares shapes with those of the caller's arguments
    return TypeAdapter(_by_class(array), config=None if is_dataclass(array) else config)


def _by_class(annotation: Any) -> Any:
    """The annotation with dataclasses of ours taken as they are: pydantic would look into their fields."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        from pydantic import InstanceOf

        return InstanceOf[annotation]  # type: ignore[valid-type]
    if get_origin(annotation) in UNIONS:
        return Union[tuple(map(_by_class, get_args(annotation)))]  # noqa: UP007
    if get_origin(annotation) is Iterable:  # pydantic would check the items of an iterator as they are read
        return Sequence[get_args(annotation)[0]]  # type: ignore[misc]
    return annotation


def _plain(value: Any, annotation: Any) -> Any:
    """A value of NumPy, torch or pandas as Python's, and a list for a tuple, where the annotation asks for these."""
    types = kinds(annotation)
    origins = [get_origin(one) or getattr(one, "array_type", one) for one in types]
    classes = tuple(one for one in origins if isinstance(one, type) and one is not Any)
    if (getattr(value, "shape", None) == () or Any not in types) and not isinstance(value, classes):
        value = plain(value)
    if isinstance(value, list) and tuple in origins and list not in origins:
        return tuple(value)
    if isinstance(value, list | tuple) and any(hasattr(one, "dtype") for one in value):
        return type(value)(map(plain, value))
    if isinstance(value, Mapping) and any(hasattr(key, "dtype") for key in value):
        return {plain(key): one for key, one in value.items()}
    return value
