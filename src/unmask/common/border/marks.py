"""Marks: what an annotation says beyond a type, as `Annotated[type, mark, ...]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError, argument_name
from unmask.common.methods.own_code import names_code

Mark = TypeVar("Mark")

PYTHON_ONLY = object()
"""Marks a parameter, or a field, that has no place on flat surfaces."""
UNIONS = (Union, UnionType)


def resolved(where: str) -> Any:
    """The object of a module, from "module:name"."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Only:
    """Marks a parameter that means something beside some arguments only, or without others.

    A parameter is given if its value is neither None nor False.

    beside    the parameter can be given only if one of these is given
    without   the parameter cannot be given if one of these is
    """

    beside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The condition as help has it: "with positions; not with measured"; the names are
        written by the surface.
        """
        parts = []
        if self.beside:
            parts.append(f"with {' or '.join(map(argument_name, self.beside))}")
        if self.without:
            parts.append(f"not with {' or '.join(map(argument_name, self.without))}")
        return "; ".join(parts)

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


@dataclass(frozen=True)
class TakesMethod:
    """Marks a parameter that takes a method: an object of a class of one kind, a user's own class
    among them, or a text that names one.

    registry   "module:NAME" of a `Registry`, or of a mapping from names to frozen dataclasses;
               loaded when first read
    several    the parameter takes a sequence of methods; on the command line their names have
               commas between them
    parse      of a mapping: "module:function" that makes the object of a name that is not in it,
               or raises InputError
    options    flat surfaces have the fields of the methods as options; else a method is named, or
               spelled with its options
    usual      of a parameter that may be left out: the method whose options can be given without
               its name, as can those that one method alone has
    other      another parameter of the function, and the registry of its methods: a method of that
               kind is led there
    """

    registry: str
    several: bool = False
    parse: str = ""
    options: bool = True
    usual: str = ""
    other: tuple[str, str] | None = None

    @property
    def classes(self) -> dict[str, type]:
        """The classes whose fields are options: those of the registry, and those that the user of
        this process brought.
        """
        registry = resolved(self.registry)
        brought = getattr(registry, "with_options", registry)
        return dict(brought)

    @property
    def public_name(self) -> str:
        """The name of the registry in Python, such as SCORES."""
        _, _, name = self.registry.partition(":")
        return name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the registry's own methods."""
        return tuple(resolved(self.registry))

    def meant_by(self, names: Collection[str]) -> str | None:
        """The method that is meant by options without its name; None if it has to be named."""
        if not self.usual:
            return None
        having_all = []
        for method, cls in self.classes.items():
            known = {field.name for field in fields(cls)}
            if known.issuperset(names):
                having_all.append(method)
        if self.usual in having_all:
            return self.usual
        return having_all[0] if len(having_all) == 1 else None

    def accepted(self, argument: str, value: Any) -> Any:
        """The method, or a tuple of the methods, that a value names or is."""
        if not self.several:
            return self._one(argument, value)
        if isinstance(value, str):
            parts: Iterable[Any] = comma_separated(value)
        elif isinstance(value, Iterable):
            parts = value
        else:
            parts = [value]
        methods = tuple(self._one(argument, part) for part in parts)
        if not methods:
            names = ", ".join(self.classes)
            raise InputError("is empty", argument=argument, use=f"name one or more of {names}")
        return methods

    def _one(self, argument: str, value: Any) -> Any:
        self._refuse_method_of_other(argument, value)
        registry = resolved(self.registry)
        if hasattr(registry, "taken"):
            return registry.taken(argument, value)
        return self._of_mapping(argument, value, registry)

    def _refuse_method_of_other(self, argument: str, value: Any) -> None:
        """Refuse a method that the other parameter takes."""
        if self.other is None:
            return
        parameter, place = self.other
        others = resolved(place)
        if isinstance(value, str):
            is_of_other = value in tuple(others)
            name = value
        else:
            is_of_other = others.is_method(value)
            name = getattr(value, "name", "")
        if is_of_other:
            raise InputError(
                f"{name} is a {parameter}",
                argument=argument,
                use=f"give {argument_name(parameter, name)}",
            )

    def _of_mapping(self, argument: str, value: Any, classes: Mapping[str, type]) -> Any:
        """An object of the mapping's classes as it is; a new object of the class of a name."""
        if isinstance(value, tuple(classes.values())):
            return value
        name = value
        if isinstance(value, str):
            name = value.strip()
            if name not in classes and self.parse:
                return resolved(self.parse)(name)
        return classes[one_of(argument, name, classes)]()


def comma_separated(text: str) -> list[str]:
    """The names in a text with commas between them; a number belongs to the name before it, as in
    family:0.5,0.25.
    """
    parts: list[str] = []
    for part in text.split(","):
        name = part.strip()
        is_number = not name[:1].isalpha() and not names_code(name)
        if parts and ":" in parts[-1] and is_number:
            parts[-1] += f",{name}"
        else:
            parts.append(name)
    return parts


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
        """Whether a value is a loaded model.

        The module of its class is not imported for this, which would load torch: while nothing
        has imported it, no value can be of its class.
        """
        module, _, name = self.kind.partition(":")
        kind = getattr(sys.modules.get(module), name, None)
        return kind is not None and isinstance(value, kind)

    def accepted(self, argument: str, value: Any) -> Any:
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
        if callable(value):
            return value
        raise InputError(
            f"{shown(value)} is not a model",
            argument=argument,
            use="give a name, a folder, or what unmask.load returned",
        )

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
    placed    a later parameter, too, has a place and no name
    files     its words name files, never texts
    help      of every parameter with this annotation whose docstring says nothing of it
    typed     the value on the command line for texts that are typed and not in a file, where it
              is another than the default
    """

    metavar: str = ""
    repeat: bool = False
    words: int = 1
    short: str = ""
    named: bool = False
    placed: bool = False
    files: bool = False
    help: str = ""
    typed: str | None = None


@dataclass(frozen=True)
class ShownType:
    """What a reader sees in the place of a type: of one that is Any here, since its classes would
    load torch.
    """

    text: str


# ---- reading marks ----


def kinds(annotation: Any) -> list[Any]:
    """The types of a union, without marks, or the one type."""
    if get_origin(annotation) is Annotated:
        return kinds(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return [kind for member in get_args(annotation) for kind in kinds(member)]
    return [annotation]


def marks(annotation: Any) -> list[Any]:
    """All that `Annotated` adds to a type and to its parts."""
    of_parts = [one for part in get_args(annotation) for one in marks(part)]
    return [*getattr(annotation, "__metadata__", ()), *of_parts]


def mark(annotation: Any, kind: type[Mark]) -> Mark | None:
    """The first mark of this kind; None without one."""
    for one in marks(annotation):
        if isinstance(one, kind):
            return one
    return None


def group_of(annotation: Any) -> type | None:
    """The dataclass of related options that a parameter takes, with or without None beside it.

    Each of its fields has a default: other dataclasses are values, such as a table.
    """
    if mark(annotation, TakesMethod) is not None:
        return None
    classes = [kind for kind in kinds(annotation) if kind is not type(None)]
    if len(classes) != 1 or not is_dataclass(classes[0]):
        return None
    if any(field.default is MISSING for field in fields(classes[0])):
        return None
    return cast(type, classes[0])
