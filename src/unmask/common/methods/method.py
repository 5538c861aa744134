"""The base class of all methods, and the decorator that makes a class one."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from unmask.common.border.calls import settings
from unmask.common.border.declarations import summary
from unmask.common.methods.own_code import OwnCode, code_of, is_ours
from unmask.common.methods.registry import Registry

Class = TypeVar("Class", bound=type)

LAST = 10**9
"""The place of a method that states none."""


class Method:
    """A method. The fields of a subclass are its options, class attributes its facts.

    The base class of a kind, such as `Kernel`, states its registry:

        KERNELS = Registry("kernel", folders=("unmask.sampling.kernels",))

        class Kernel(Method, registry=KERNELS): ...
    """

    registry: ClassVar[Registry]
    """The methods of this kind."""
    name: ClassVar[str] = ""
    """What the method is called, as it is typed. An own class without one is called after its
    class: `UniformSets` is uniform-sets.
    """
    label: ClassVar[str] = ""
    """What tables and figures call it: by default its name."""
    place: ClassVar[int] = LAST
    """Where it stands among the methods of its kind: small numbers come first."""

    def __init_subclass__(cls, registry: Registry | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        if registry is not None:
            cls.registry = registry
            registry.base = cls

    @classmethod
    def spelled(cls, text: str) -> Method | None:
        """The object that a text spells in a small language of this class, such as
        family:0.5,0.25; None if the text is no such spelling.

        Raises InputError if it is one, with something wrong in it.
        """
        return None

    @classmethod
    def meaning(cls) -> str:
        """The first paragraph of the docstring, in one line: what the method is, in words."""
        return summary(cls)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Another process gets the source of an own class, not a pickle of it."""
        if is_ours(type(self)):
            return super().__reduce_ex__(protocol)
        values = {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}
        return (_made_again, (code_of(type(self)), values))

    def __copy__(self) -> Any:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _made_again(code: OwnCode, values: dict[str, Any]) -> Any:
    """The object of an own class, in another process."""
    return code.load_sent()(**values)


@dataclass_transform(frozen_default=True)
def method(cls: Class) -> Class:
    """Make a class a method: a frozen dataclass whose fields are checked when an object is made.

    A class in one of the folders of its registry is registered under its name.

    Returns:
        The class.

    >>> @unmask.method
    ... class SharpProduct(unmask.Construction):
    ...     "mu(x, y) proportional to (m_1(x) m_2(y))^power, of two blanks."
    ...     power: float = 2.0
    ...     def derive(self, tables):
    ...         first, second = tables.log_masked
    ...         log_mu = self.power * (first.unsqueeze(1) + second)
    ...         return log_mu - log_mu.logsumexp((0, 1))
    >>> rule = SharpProduct(power=1.5)
    >>> filling = unmask.fill("The [MASK] [MASK].", construction=rule, candidates=8)
    >>> filling.construction
    'sharp-product'
    """
    if not issubclass(cls, Method):
        raise TypeError(
            f"{cls.__name__} is not derived from the base class of a kind of methods, such as"
            " unmask.Score"
        )
    made = cast(Any, settings(cls))
    if not is_ours(made):  # a name that it inherits is that of another method
        _give_own(made, "name", _name_of(made))
    if isinstance(vars(made).get("name"), str):
        _give_own(made, "label", made.name)
    made.registry.register(made)
    return cast(Class, made)


def _give_own(cls: Any, attribute: str, value: object) -> None:
    if attribute not in vars(cls):
        setattr(cls, attribute, value)


def _name_of(cls: type) -> str:
    """`UniformSets` is called uniform-sets."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
