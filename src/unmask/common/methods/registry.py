"""The methods of one kind, by name. They come from the files of our own folders, from installed
packages, and from the user of this process.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
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
"""The group of entry points with which an installed package offers methods. The name of an entry
point is the kind and the name of the method, as in `kernel.uniform = "package.module:Uniform"`.
"""
ONE_WORD_MODULE = re.compile(r"[A-Za-z_]\w*:[A-Za-z_]\w*")
"""A text such as `rules:Mine`. It may be meant as own code, but a module of one word is never
loaded: `decoder:NAME` and `pairs:NAME` have the same form and mean something else.
"""


class OfOtherKind(InputError):
    """A method was given where one of another kind is taken."""


class Elsewhere(NamedTuple):
    """Another kind, whose methods users also look for in this registry.

    registry   "module:NAME" of the other kind's registry, loaded when a name is not of this kind
    verb       the verb that takes methods of the other kind
    argument   the argument of this verb that takes them
    """

    registry: str
    verb: str
    argument: str


class Registry(Mapping[str, type]):
    """A mapping from the names of one kind of method to our own classes.

    kind        what messages call a method of this kind
    folders     the packages whose files hold the classes; imported when the registry is first read
    function    makes a method of a user's plain function; None if this kind needs a class
    elsewhere   another kind, whose verb the error of an unknown name advises
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
        self.base: Any = None
        """The base class of the kind, which `Method.__init_subclass__` sets; of `Together` a tuple
        of base classes.
        """
        self.brought: dict[str, type] = {}
        """Classes of users and of installed packages that this process has loaded, by the text that
        named them.
        """
        self._registered: dict[str, type] = {}
        """Classes of our folders, by name, as far as they are imported."""

    # ---- ours ----

    def register(self, cls: Any) -> None:
        """Add a class under its name. A class that is not of our own folders is left out."""
        if not self._is_of_our_folders(cls):
            return
        name = cls.name
        if not isinstance(name, str) or not name:
            return  # a common base of methods, or a class whose objects each have their own name
        other = self._registered.get(name)
        # The same class may be defined again, as by importlib.reload.
        if other is not None and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"two methods are called {name}: {other!r} and {cls!r}")
        self._registered[name] = cls

    def _is_of_our_folders(self, cls: type) -> bool:
        """Whether a class is defined in one of the folders, or in a folder below."""
        module = f"{cls.__module__}."  # the dot ends a name: unmask.scores is not in unmask.score
        return any(module.startswith(f"{folder}.") for folder in self.folders)

    @cached_property
    def _classes(self) -> dict[str, type]:
        """The classes of the folders by name, in the order of their places.

        Imports the files of the folders: `register` gets their classes, and `base` is set.
        """
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
        """The classes whose fields are options in this process, by name: ours and `brought`."""
        return {**self, **self.brought}

    @property
    def _entries(self) -> tuple[str, ...]:
        """The kinds that begin the names of entry points for this registry."""
        return (self.kind,)

    # ---- a method that a user gives ----

    def is_method(self, value: object) -> bool:
        """Whether a value is an object of a class of this kind."""
        self._classes  # noqa: B018  # read for its effect: it sets `base`
        return isinstance(value, self.base)

    def taken(self, argument: str, value: Any) -> Any:
        """The method that a user's value is, or that it names.

        Raises InputError about `argument` if it is neither.
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
        """The method that a text names. It is looked up in this order:

        1. a name of ours
        2. a text in the small language of one of our classes, such as family:0.5,0.25
        3. the name of an installed package's method
        4. own code, such as my_rules.py:Mine
        """
        if text in self:
            return self[text]()
        for cls in self.values():
            method = cls.spelled(text)  # type: ignore[attr-defined]
            if method is not None:
                return method
        entry = self.entry_of(text)
        if entry is not None:
            return self._made(argument, text, self._loaded(argument, entry))
        if names_code(text):
            return self._made(argument, text, self.bring(argument, text))
        raise self._unknown(argument, text)

    def entry_of(self, name: str) -> EntryPoint | None:
        """The entry point of an installed package's method of this name; None if there is none."""
        for kind in self._entries:
            entry = installed().get(f"{kind}.{name}")
            if entry is not None:
                return entry
        return None

    def bring_installed(self, argument: str, name: str) -> None:
        """Load an installed package's method, if there is one of this name.

        A class is added to `brought`: its options are options of this process from then on. A
        function has no options.
        """
        entry = self.entry_of(name)
        if entry is None:
            return
        loaded = self._loaded(argument, entry)
        if isinstance(loaded, type):
            self.brought[name] = loaded

    def bring(self, argument: str, text: str) -> Any:
        """Load own code, such as my_rules.py:Mine, and return what it names.

        That is a class of this kind, an object of one, or a function for kinds that take functions.
        A class is added to `brought`: its options are options of this process from then on.
        """
        named = code_spelled(argument, text).load(argument)
        if isinstance(named, type) and issubclass(named, self.base):
            self._refuse_unready(argument, text, named)
            self.brought[text] = named
            return named
        is_taken_function = self.function is not None and callable(named)
        if self.is_method(named) or is_taken_function:
            return named
        if self.is_elsewhere(named):
            raise self._of_other_kind(argument, text)
        bases = self.base
        if not isinstance(bases, tuple):
            bases = (bases,)
        names = " or ".join(f"unmask.{base.__name__}" for base in bases)
        raise InputError(
            f"{text} is {shown(named)}, and no {self.kind}",
            argument=argument,
            use=f"name a class derived from {names}",
        )

    def _made(self, argument: str, text: str, named: Any) -> Any:
        """The method of what own code names: a class, or a value that `taken` understands.

        text   names it
        """
        if not isinstance(named, type):
            return self.taken(argument, named)
        for one in fields(named):
            if one.default is MISSING and one.default_factory is MISSING:
                raise InputError(
                    f"{text} has the option {one.name} without a default",
                    argument=argument,
                    use="give it one in the class",
                )
        return self._accepted(argument, self._built(argument, text, named))

    def _built(self, argument: str, text: str, cls: type) -> Any:
        """An object of an own class. An error in the user's code becomes an InputError."""
        try:
            return cls()
        except InputError:
            raise
        except Exception as error:
            problem = f"{text} cannot be made ({first_line_of(error)})"
            raise InputError(problem, argument=argument, use="mend the class") from None

    def _loaded(self, argument: str, entry: EntryPoint) -> Any:
        """What an entry point names: a class of this kind, or a function for kinds that take
        functions.
        """
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
        """The object itself. Raises InputError for an object of an own class that is not ready, or
        whose fields do not have the types of their annotations.
        """
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
        """Refuse an own class that is not a complete method, or that has the name of one of ours.

        text   the class, as messages call it
        """
        is_decorated = "__dataclass_fields__" in vars(cls)  # `is_dataclass` counts a base's, too
        if not is_decorated:
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
        """Whether a value is a method of the other kind (`elsewhere`), its class, or its name."""
        if self.elsewhere is None:
            return False
        others: Registry = resolved(self.elsewhere.registry)
        if isinstance(value, str):
            return value in others
        if isinstance(value, type):
            has_methods = bool(others)  # this reads the registry, which sets its base
            return has_methods and issubclass(value, others.base)
        return others.is_method(value)

    def _of_other_kind(self, argument: str, name: str) -> OfOtherKind:
        """The error of a method of the other kind (`elsewhere`)."""
        assert self.elsewhere is not None
        others: Registry = resolved(self.elsewhere.registry)
        call = f"unmask.{self.elsewhere.verb}({self.elsewhere.argument}={name!r})"
        return OfOtherKind(
            f"{name} is a {others.kind}, and no {self.kind}", argument=argument, use=f"use {call}"
        )

    def _unknown(self, argument: str, value: object) -> InputError:
        """The error of a value that is not a method of this kind and does not name one."""
        if self.is_elsewhere(value):
            name = value if isinstance(value, str) else getattr(value, "name", "")
            return self._of_other_kind(argument, str(name))
        use = f"use one of {', '.join(self)}"
        if isinstance(value, str):
            use = self._advice(value)
        return InputError(f"{shown(value)} is unknown", argument=argument, use=use)

    def _advice(self, text: str) -> str:
        """What to give in the place of an unknown text."""
        if text.lower().endswith(".py"):
            return f"name the class in the file, as in {text}:Name"
        if ONE_WORD_MODULE.fullmatch(text):
            module, _, name = text.partition(":")
            return f"name code of your own as {module}.py:{name}, or package.module:{name}"
        names = ", ".join(self)
        near = nearest(text, self)
        if near is not None:
            return f"did you mean {near}? Use one of {names}"
        return f"use one of {names}"


@cache
def installed() -> dict[str, EntryPoint]:
    """The entry points of installed packages' methods, by name, as they were at the first call.

    No method is loaded before a user names it.
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
        # The registries have been read above, so their base classes are known.
        self.base = tuple(one.base for one in self.registries)
        return merged

    @property
    def _entries(self) -> tuple[str, ...]:
        return tuple(one.kind for one in self.registries)
