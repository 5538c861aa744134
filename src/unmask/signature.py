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
from typing import Annotated, Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from unmask.checks import as_number, one_of, shown
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

    def named(self, argument: str, value: Any) -> Any:
        """The method object of a name; objects of the registry's classes stay as they are."""
        if isinstance(value, tuple(self.classes.values())):
            return value
        if isinstance(value, str) and value not in self.classes and self.parse:
            return resolved(self.parse)(value)
        return self.classes[one_of(argument, value, self.classes)]()

    def fitted(self, argument: str, value: Any) -> Any:
        """`value` as the function gets it: one method object, or a tuple of several."""
        if not self.several:
            return self.named(argument, value)
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if not isinstance(parts, Iterable) or getattr(parts, "shape", None) == ():
            parts = [parts]
        if not (methods := tuple(self.named(argument, part) for part in parts)):
            raise InputError(f"{argument} is empty: name one or more of {', '.join(self.classes)}")
        return methods


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
        if value is None or isinstance(value, str | os.PathLike) or any(b.__name__ == self.kind for b in type(value).__mro__):
            return value
        if hasattr(value, "state_dict"):
            what, use = f"{type(value).__name__} is a network without its tokenizer", "unmask.MaskedLM(network, tokenizer)"
        elif callable(value):
            return value
        else:
            what, use = f"{shown(value)} is not a model", "a name, a folder, or what unmask.load returned"
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
    """

    metavar: str = ""
    read: str = ""
    repeat: bool = False
    words: int = 1
    short: str = ""
    named: bool = False


def resolved(where: str) -> Any:
    """What "module:name" names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


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
    plain: Any = inspect.unwrap(declared)
    homes = plain.__mro__[::-1] if isinstance(plain, type) else [plain]
    names = [field.name for field in fields(plain)] if isinstance(plain, type) else [*plain.__annotations__]
    evaluated = dict[str, Any]()
    for home in homes:
        own = {name: hint for name, hint in inspect.get_annotations(home).items() if name in names and name != "return"}
        module = vars(sys.modules[home.__module__]) if isinstance(home, type) else home.__globals__
        holder: Any = types.SimpleNamespace(__annotations__=own)
        evaluated |= get_type_hints(holder, module, _Names(module), include_extras=True)
    return {name: evaluated[name] for name in names if name in evaluated}


UNIONS = (Union, types.UnionType)


def bare(annotation: Any) -> Any:
    """The type without marks."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def members(annotation: Any) -> list[Any]:
    """The members of a union, with their marks, or the annotation itself."""
    if get_origin(bare(annotation)) in UNIONS:
        return [one for member in get_args(bare(annotation)) for one in members(member)]
    return [annotation]


def plain_type(annotation: Any) -> Any:
    """The type without marks and without None."""
    kind = bare(annotation)
    own = [one for one in get_args(kind) if one is not type(None)] if get_origin(kind) in UNIONS else [kind]
    return own[0] if len(own) == 1 else kind


def marks(annotation: Any) -> tuple[Any, ...]:
    """What `Annotated` adds to a type."""
    return tuple(annotation.__metadata__) if get_origin(annotation) is Annotated else ()


def mark(annotation: Any, kind: type[Any]) -> Any:
    """The mark of this kind on the annotation, or on a member of its union; None without one."""
    marked = [annotation, *members(annotation)]
    return next((one for member in marked for one in marks(member) if isinstance(one, kind)), None)


@cache
def documentation(declared: Callable[..., Any]) -> Mapping[str, str]:
    """The help of each parameter or field: the section "Parameters" of the docstring, and those of the base classes.

    In NumPy's style: a name in a line of its own, its help indented below it.
    """
    helps: dict[str, str] = {}
    for one in reversed(declared.__mro__) if isinstance(declared, type) else [inspect.unwrap(declared)]:
        text = inspect.cleandoc(vars(one).get("__doc__") or "" if isinstance(one, type) else one.__doc__ or "")
        if section := re.search(r"^Parameters\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}\n|^>>> |\Z)", text, re.MULTILINE | re.DOTALL):
            entries = re.findall(r"^(\w+)\n((?:[ \t]+[^\n]*\n?|\n(?=[ \t]))*)", section[1] + "\n", re.MULTILINE)
            helps |= {name: " ".join(help.split()) for name, help in entries}
    return helps


def summary(declared: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return inspect.cleandoc(inspect.unwrap(declared).__doc__ or "").partition("\n")[0]


def description(declared: Callable[..., Any]) -> str:
    """The docstring between its first line and its sections or examples."""
    text = inspect.cleandoc(inspect.unwrap(declared).__doc__ or "").partition("\n")[2]
    return re.split(r"^(?:\S[^\n]*\n-{3,}$|>>> )", text, maxsplit=1, flags=re.MULTILINE)[0].strip()


HIDDEN = ("progress", "ready", "sink")
"""Arguments of Python alone: functions that are called as work goes on."""
PYTHON_ONLY = object()
"""Marks a parameter, or a field, that has no place on flat surfaces."""


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
        method, loaded = mark(annotation, Method), mark(annotation, Loaded)
        if is_dataclass(group := plain_type(annotation)) and method is None:
            listed += _fields(cast(type, group), name, (), default)
            continue
        if method is not None and not isinstance(default, str | None):
            default = ",".join(_name(one) for one in default) if method.several else _name(default)
        named = (mark(annotation, Written) or Written()).named
        positional = number == 0 and parameter.kind is not parameter.KEYWORD_ONLY and not named
        listed.append(Option(name, annotation, default, helps.get(name, ""), name, (), None, positional, required))
        if method is not None:
            listed += _method_fields(method, name)
        if loaded is not None:
            load = resolved(loaded.load)
            listed += [replace(one, parameter=name, owner=load) for one in options(load)[1:]]
    return tuple(listed)


def _name(method: Any) -> str:
    return method if isinstance(method, str) else str(method.name)


def _fields(group: type, parameter: str, readers: tuple[str, ...], instance: Any = None) -> list[Option]:
    """The fields of a group; their defaults are those of the `instance` that is the parameter's default, if there is one."""
    annotations, helps, listed = hints(group), documentation(group), []
    for field in fields(group):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        default = default if instance is None else getattr(instance, field.name)
        help, annotation = helps.get(field.name, ""), annotations[field.name]
        if PYTHON_ONLY not in marks(annotation):
            listed.append(Option(field.name, annotation, default, help, parameter, readers, group))
    return listed


def _method_fields(method: Method, parameter: str) -> list[Option]:
    """Each field once, with the methods that have it."""
    by_name: dict[str, list[Option]] = {}
    for name, kind in method.classes.items():
        for option in _fields(kind, parameter, (name,)):
            by_name.setdefault(option.name, []).append(option)
    merged = []
    for first, *rest in by_name.values():
        default = first.default if all(one.default == first.default for one in rest) else None
        merged.append(replace(first, default=default, readers=tuple(one.readers[0] for one in (first, *rest))))
    return merged


def arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from values of its `options`; an option that the chosen method does not have is refused."""
    made: dict[str, Any] = {}
    annotations = hints(function)
    known = {option.name: option for option in options(function)}
    by_parameter: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_argument(function, name)
        if known[name].owner is None:
            made[name] = value
        else:
            by_parameter.setdefault(known[name].parameter, {})[name] = value
    for parameter, own in by_parameter.items():
        annotation = annotations[parameter]
        if (method := mark(annotation, Method)) is not None:
            made[parameter] = _with_fields(function, method, parameter, made.get(parameter), own)
        elif (loaded := mark(annotation, Loaded)) is not None:
            made[parameter] = partial(resolved(loaded.load), made.get(parameter), **own)
        else:
            default = inspect.signature(function).parameters[parameter].default
            group = plain_type(annotation)
            made[parameter] = replace(default, **own) if isinstance(default, group) else group(**own)
    return made


def _with_fields(function: Callable[..., Any], method: Method, parameter: str, chosen: Any, own: Mapping[str, Any]) -> Any:
    """The chosen methods with these fields; each field must belong to one of them."""
    default = inspect.signature(function).parameters[parameter].default
    methods = method.fitted(parameter, default if chosen is None else chosen)
    several = methods if method.several else (methods,)
    for name in own:
        if not any(name in hints(one.__class__) for one in several):
            chosen_names = ", ".join(_name(one) for one in several)
            readers = [kind for kind, one in method.classes.items() if name in hints(one)]
            raise InputError(
                f"{name} was given, which {parameter} {chosen_names} does not use: leave it out, or use {' or '.join(readers)}"
            )
    made = [replace(one, **{n: v for n, v in own.items() if n in hints(one.__class__)}) for one in several]
    return tuple(made) if method.several else made[0]


# ---- checking a call ----


def checked(function: Function) -> Function:
    """The function, which raises an InputError for arguments that its signature does not allow.

    A value that means the same in another library becomes the plain one: whole numbers of NumPy and torch are int, arrays lists.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            for name in named:
                if name not in signature.parameters:
                    raise unknown_argument(function, name) from None
            raise
        annotations = hints(function)
        bound.arguments |= {name: value for name, value in _named_methods(function).items() if name not in bound.arguments}
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if name in annotations and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                if name != "model" and "model" in annotations and type(value).__name__ == "MaskedLM":
                    raise InputError(f"{name} {shown(value)} is a model: give it as model=")
                bound.arguments[name] = fitted(name, value, annotations[name])
        return function(*bound.args, **bound.kwargs)

    return cast(Function, call)


@cache
def _named_methods(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Defaults that are names of methods, which the function gets as objects."""
    parameters, annotations = inspect.signature(function).parameters, hints(function)
    marked = [name for name in parameters if mark(annotations.get(name), Method) is not None]
    return {name: parameters[name].default for name in marked if parameters[name].default not in (None, inspect.Parameter.empty)}


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """A frozen dataclass of options, each held to its annotation when an object is made."""
    frozen = cast(Any, dataclass(frozen=True)(cls))
    plain, names = frozen.__init__, [field.name for field in fields(frozen) if field.init]

    @wraps(plain)
    def init(self: Any, *args: Any, **named: Any) -> None:
        if len(args) > len(names):
            raise InputError(f"{cls.__name__} takes {len(names)} values, and {len(args)} were given: give {', '.join(names)}")
        values = dict(zip(names, args, strict=False)) | named
        for name in values:
            if name not in names:
                raise unknown_argument(frozen, name)
        annotations = hints(frozen)
        plain(self, **{name: fitted(name, value, annotations[name]) for name, value in values.items()})

    frozen.__init__ = init
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
    """`value` as the annotation has it; raises an InputError that says what was given and what to give."""
    marked: Method | Loaded | None = mark(annotation, Method) or mark(annotation, Loaded)
    if marked is not None and (value is not None or isinstance(marked, Loaded)):
        return marked.fitted(name, value)
    from pydantic import ValidationError

    value = _plain(value, annotation)
    if isinstance(value, Iterator) and any(get_origin(one) is Iterable for one in members(annotation)):
        return value  # reading it here would use it up
    try:
        return _adapter(annotation).validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    raise InputError(_misfit(name, value, annotation, errors))


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
    kinds = [plain_type(one) for one in members(annotation)]
    origins = [get_origin(one) or getattr(one, "array_type", one) for one in kinds]
    classes = tuple(one for one in origins if isinstance(one, type) and one is not Any)
    scalar = getattr(value, "shape", None) == ()
    if hasattr(value, "dtype") and (scalar or Any not in kinds) and not isinstance(value, classes):
        value = _of_python(value)
    if isinstance(value, list) and tuple in origins and list not in origins:
        return tuple(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_of_python, value)) if any(hasattr(one, "dtype") for one in value) else value
    if isinstance(value, Mapping) and any(hasattr(key, "dtype") for key in value):
        return {_of_python(key): one for key, one in value.items()}
    return value


def _of_python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


# ---- words about types ----

KINDS: dict[Any, str] = {int: "a whole number", float: "a number", complex: "a number", str: "a text", bytes: "bytes"}
KINDS |= {bool: "True or False", type(None): "None"}
OUT_OF_RANGE = ("greater_than_equal", "less_than_equal", "greater_than", "less_than", "finite_number")


def _misfit(name: str, value: Any, annotation: Any, errors: Sequence[Mapping[str, Any]]) -> str:
    """One line: what was given, what is wrong, what to give; a bad item of a list is named with its place."""
    choices = [choice for one in members(annotation) if get_origin(one) is Literal for choice in get_args(one)]
    if choices and not isinstance(value, int | float):
        one_of(name, value, choices)
    if errors[0]["type"] in OUT_OF_RANGE and as_number(value) is not None:
        return f"{name} {shown(value)} is out of range: give {expected(annotation)}"
    items = [(error["loc"][-1], error["input"]) for error in errors if error["loc"] and isinstance(error["loc"][-1], int)]
    several = items and isinstance(value, list | tuple) and len(value) > 1
    hint = f"item {items[0][0] + 1} is {shown(items[0][1])}" if several else "give one"
    return f"{name} {shown(value)} is not {expected(annotation)}: {hint}"


def expected(annotation: Any) -> str:
    """What a value of this annotation is called, with its bounds."""
    kind = getattr(bare(annotation), "array_type", bare(annotation))
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in UNIONS:
        *some, last = dict.fromkeys(expected(one) for one in members(kind) if one is not type(None))
        return f"{', '.join(some)} or {last}" if some else last
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if kind in KINDS:
        return KINDS[kind] + _bounds(annotation)
    if origin is Callable:
        return "a function"
    if not isinstance(origin, type) or origin.__name__.startswith("_"):  # protocols of NumPy's types
        return "an array"
    if issubclass(origin, os.PathLike):
        return "a path"
    if issubclass(origin, Mapping) and inner:
        return f"a mapping of {_plural(inner[0])} to {_plural(inner[1])}"
    if issubclass(origin, Iterable) and inner:
        return f"a list of {_plural(inner[0])}"
    return f"a {origin.__name__}"


def _plural(annotation: Any) -> str:
    words = dict.fromkeys(expected(one).partition(" ")[2].partition(" ")[0] for one in members(annotation) if one is not Any)
    return " or ".join("whole numbers" if word == "whole" else f"{word}s" for word in words) or "values"


def _bounds(annotation: Any) -> str:
    for one in marks(annotation):
        low, above, high = (getattr(one, name, None) for name in ("ge", "gt", "le"))
        if above is not None:
            return f" above {above:g}" + (f" and at most {high:,}" if high is not None else "")
        if low is not None:
            return f" from {low:,} to {high:,}" if high is not None else f" of at least {low:,}"
    return ""
