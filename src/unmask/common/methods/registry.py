"""The methods of one kind, by name: those that the files of a folder hold, those that installed
packages bring, and those that the user of this process brought.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.common.border.declarations import hints
from unmask.common.border.marks import resolved
from unmask.common.border.names import nearest
from unmask.common.border.values import accepted
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.methods.own_code import code_spelled, first_line_of, is_ours, names_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "unmask.methods"
"""The group of entry points by which an installed package brings methods. The name of one is its
kind and the name of the method, as in `kernel.uniform = "package.module:Uniform"`.
"""
ONE_WORD_MODULE = re.compile(r"[A-Za-z_]\w*:[A-Za-z_]\w*")
"""Looks like own code in a module of one word, which is not loaded: `decoder:NAME`, `pairs:NAME`
are written so, too.
"""


class OfOtherKind(InputError):
    """A method was given where one of another kind is taken."""


class Elsewhere(NamedTuple):
    """Methods of another kind, which some look for among these.

    registry   "module:NAME" of their registry, loaded when a name is not of this kind
    verb       the verb that takes them
    argument   as which one
    """

    registry: str
    verb: str
    argument: str


class Registry(Mapping[str, type]):
    """The classes of one kind of method, by name.

    kind        what messages call a method of this kind
    folders     the packages whose files hold them: imported when the registry is first read
    function    makes a method of a plain function of a user, for kinds where that is enough
    elsewhere   methods of another kind, whose verb a message names
    """

    def __init__(
        self,
        kind: str,
        folders: tuple[str, ...],
        function: Callable[[Callable[..., Any]], Any] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.kind = kind
        self.folders = folders
        self.function = function
        self.elsewhere = elsewhere
        self.base: Any = None  # set by the base class of the kind, as it is defined
        self.brought: dict[str, type] = {}
        """Own classes that the user of this process named, by how they were spelled."""
        self._registered: dict[str, type] = {}

    # ---- ours ----

    def register(self, cls: Any) -> None:
        """Add a class of our own folders. A class from elsewhere needs no entry."""
        if not self._is_of_our_folders(cls):
            return
        name = cls.name
        if not isinstance(name, str) or not name:
            return  # it has no name of its own: a class between, or one that is spelled
        other = self._registered.get(name)
        if other is not None and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"two methods are called {name}: {other!r} and {cls!r}")
        self._registered[name] = cls

    def _is_of_our_folders(self, cls: type) -> bool:
        module = f"{cls.__module__}."
        return any(module.startswith(f"{folder}.") for folder in self.folders)

    @cached_property
    def _classes(self) -> dict[str, type]:
        """The classes of the folders, in the order of their places."""
        for folder in self.folders:
            package = import_module(folder)
            for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
                import_module(f"{folder}.{found.name}")
        in_order = sorted(self._registered.values(), key=lambda cls: (cls.place, cls.name))  # type: ignore[attr-defined]
        return {cls.name: cls for cls in in_order}  # type: ignore[attr-defined]

    def __getitem__(self, name: str) -> type:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"<{self.kind}s: {', '.join(self)}>"

    @property
    def with_options(self) -> dict[str, type]:
        """The classes whose fields are options of this process: ours, and those that its user
        brought.
        """
        return {**self, **self.brought}

    @property
    def _entries(self) -> tuple[str, ...]:
        """The kinds by which installed packages name their methods."""
        return (self.kind,)

    # ---- a method that a user gives ----

    def is_method(self, value: object) -> bool:
        """Whether a value is an object of a class of this kind."""
        self._classes  # noqa: B018  # the base class is known once the files are imported
        return isinstance(value, self.base)

    def taken(self, argument: str, value: Any) -> Any:
        """The method that a user's value is or names; an InputError names the argument.

        A text is looked up in this order: a name of ours, a spelling of one of our classes, the
        name of an installed package's method, own code.
        """
        if self.is_method(value):
            return self._accepted(argument, value)
        if isinstance(value, str):
            return self._named(argument, value.strip())
        if isinstance(value, type) and issubclass(value, self.base):
            name = value.__name__
            raise InputError(f"{name} is a class", argument=argument, use=f"give {name}()")
        if self.function is not None and callable(value):
            return self._accepted(argument, self.function(value))
        raise self._unknown(argument, value)

    def _named(self, argument: str, text: str) -> Any:
        if text in self:
            return self[text]()
        for cls in self.values():
            spelled = cls.spelled(text)  # type: ignore[attr-defined]
            if spelled is not None:
                return spelled
        entry = self.entry_of(text)
        if entry is not None:
            return self._made(argument, text, self._loaded(argument, entry))
        if names_code(text):
            return self._made(argument, text, self.bring(argument, text))
        raise self._unknown(argument, text)

    def entry_of(self, name: str) -> EntryPoint | None:
        """The entry point of an installed package's method of this kind and name."""
        for kind in self._entries:
            entry = installed().get(f"{kind}.{name}")
            if entry is not None:
                return entry
        return None

    def bring_installed(self, argument: str, name: str) -> None:
        """Make the options of an installed package's method options of this process."""
        entry = self.entry_of(name)
        if entry is not None:
            self.brought[name] = self._loaded(argument, entry)

    def bring(self, argument: str, text: str) -> Any:
        """Load own code, such as my_rules.py:Mine: a class of this kind, an object of one, or, for
        kinds that take functions, a function.

        The options of a class are options of this process from then on.
        """
        named = code_spelled(argument, text).load(argument)
        if isinstance(named, type) and issubclass(named, self.base):
            self._refuse_unready(argument, text, named)
            self.brought[text] = named
            return named
        if self.is_method(named) or (self.function is not None and callable(named)):
            return named
        if self.is_elsewhere(named):
            raise self._of_other_kind(argument, text)
        bases = self.base if isinstance(self.base, tuple) else (self.base,)
        names = " or ".join(f"unmask.{base.__name__}" for base in bases)
        raise InputError(
            f"{text} is {shown(named)}, and no {self.kind}",
            argument=argument,
            use=f"name a class derived from {names}",
        )

    def _made(self, argument: str, text: str, named: Any) -> Any:
        """The method of what own code names."""
        if not isinstance(named, type):
            return self.taken(argument, named)
        required = [
            one.name
            for one in fields(named)
            if one.default is MISSING and one.default_factory is MISSING
        ]
        if required:
            raise InputError(
                f"{text} has the option {required[0]} without a default",
                argument=argument,
                use="give it one in the class",
            )
        return self._accepted(argument, self._built(argument, text, named))

    def _built(self, argument: str, text: str, cls: type) -> Any:
        """An object of an own class, whose code may fail."""
        try:
            return cls()
        except InputError:
            raise
        except Exception as error:
            problem = f"{text} cannot be made ({first_line_of(error)})"
            raise InputError(problem, argument=argument, use="mend the class") from None

    def _loaded(self, argument: str, entry: EntryPoint) -> Any:
        """The class that an installed package names."""
        try:
            named = entry.load()
        except Exception as error:
            raise InputError(
                f"{entry.name} of an installed package cannot be loaded ({first_line_of(error)})",
                argument=argument,
                use="install the package anew, or leave its method out",
            ) from None
        is_function = callable(named) and not isinstance(named, type)
        if self.function is not None and is_function:
            return named
        if not (isinstance(named, type) and issubclass(named, self.base)):
            raise InputError(
                f"{entry.value} of an installed package is no {self.kind}",
                argument=argument,
                use="use another method",
            )
        self._refuse_unready(argument, entry.value, named)
        return named

    def _accepted(self, argument: str, value: Any) -> Any:
        """An object of one of our classes as it is; one of an own class, if it keeps the rules."""
        cls: Any = type(value)
        if is_ours(cls):
            return value
        self._refuse_unready(argument, cls.__qualname__, cls)
        annotations = hints(cls)
        for one in fields(value):
            try:
                accepted(one.name, getattr(value, one.name), annotations[one.name])
            except InputError as error:
                problem = f"{cls.__qualname__}: {error.marked}"
                raise InputError(problem, argument=argument) from None
        return value

    def _refuse_unready(self, argument: str, text: str, cls: Any) -> None:
        """Refuse an own class that is no method yet, or that has the name of another."""
        if not is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
            raise InputError(
                f"{text} is a class without its decorator",
                argument=argument,
                use="write @unmask.method above it",
            )
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            raise InputError(
                f"{text} does not define {missing[0]}", argument=argument, use="define it"
            )
        name = getattr(cls, "name", "")
        if isinstance(name, str) and name in self and self[name] is not cls:
            raise InputError(
                f"{text} is called {name}, as one of ours is",
                argument=argument,
                use="give the class another name",
            )

    # ---- methods of another kind ----

    def is_elsewhere(self, value: object) -> bool:
        """Whether a value is, or names, a method of the kind that is `elsewhere`."""
        if self.elsewhere is None:
            return False
        others: Registry = resolved(self.elsewhere.registry)
        if isinstance(value, str):
            return value in others
        if isinstance(value, type):
            return bool(others) and issubclass(value, others.base)
        return others.is_method(value)

    def _of_other_kind(self, argument: str, name: str) -> OfOtherKind:
        assert self.elsewhere is not None
        others: Registry = resolved(self.elsewhere.registry)
        call = f"unmask.{self.elsewhere.verb}({self.elsewhere.argument}={name!r})"
        return OfOtherKind(
            f"{name} is a {others.kind}, and no {self.kind}", argument=argument, use=f"use {call}"
        )

    def _unknown(self, argument: str, value: object) -> InputError:
        if self.is_elsewhere(value):
            name = value if isinstance(value, str) else getattr(value, "name", "")
            return self._of_other_kind(argument, str(name))
        names = list(self)
        use = f"use one of {', '.join(names)}"
        near = nearest(value, names) if isinstance(value, str) else None
        if isinstance(value, str) and value.lower().endswith(".py"):
            use = f"name the class in the file, as in {value}:Name"
        elif isinstance(value, str) and ONE_WORD_MODULE.fullmatch(value):
            module, _, name = value.partition(":")
            use = f"name code of your own as {module}.py:{name}, or package.module:{name}"
        elif near is not None:
            use = f"did you mean {near}? Use one of {', '.join(names)}"
        return InputError(f"{shown(value)} is unknown", argument=argument, use=use)


@cache
def installed() -> dict[str, EntryPoint]:
    """The methods that installed packages bring, as they were when this was first asked; none is
    loaded before it is named.
    """
    from importlib.metadata import entry_points  # it reads much, and most calls need no package

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


class Together(Registry):
    """The methods of several kinds, for a parameter that takes one of any of them."""

    def __init__(self, *registries: Registry) -> None:
        kinds = " or ".join(one.kind for one in registries)
        folders = tuple(folder for one in registries for folder in one.folders)
        super().__init__(kinds, folders)
        self.registries = registries

    @cached_property
    def _classes(self) -> dict[str, type]:
        merged: dict[str, type] = {}
        for one in self.registries:
            merged |= one
        self.base = tuple(one.base for one in self.registries)
        return merged

    @property
    def _entries(self) -> tuple[str, ...]:
        return tuple(one.kind for one in self.registries)
