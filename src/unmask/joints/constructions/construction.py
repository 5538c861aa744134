"""What a construction is: a rule from the tables of a block to a joint distribution over it.

    tables (log q_t of every blank t, and what surrounds them)  -->  mu, a `Joint`

A construction is a class with `@method` above it, in a file of this folder, or in a file of yours.
Its fields are its options. `derive` is its mathematics. Its other attributes are facts that tables
and figures read.

    @unmask.method
    class Pooled(unmask.Construction):
        "The two orders of the chain rule, pooled geometrically."

        def derive(self, tables):
            log_mu = ...
            return log_mu.log_softmax(...)

`check_construction` holds a construction to the laws that all of them keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

from unmask.common.border.marks import ShownType, TakesMethod, Written
from unmask.common.errors import InputError
from unmask.common.methods.method import Method, method
from unmask.common.methods.own_code import code_of, is_ours
from unmask.common.methods.registry import Registry
from unmask.common.methods.stored import stored_form

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.joints.joint import Joint
    from unmask.tables.unary import Tables


@dataclass(frozen=True)
class Style:
    """Colour, marker and line of a construction in figures; colour-blind readers can
    distinguish the colours too.
    """

    colour: str
    marker: str
    line: str


def _of_function(function: Callable[..., Any]) -> OfFunction:
    return OfFunction(function)


CONSTRUCTIONS = Registry(
    "construction", folders=("unmask.joints.constructions",), function=_of_function
)
"""The constructions of unmask: their classes, by name."""


class Construction(Method, ABC, registry=CONSTRUCTIONS):
    """A rule from tables to a joint. Derive from this class to bring your own.

    >>> @unmask.method
    ... class Flat(unmask.Construction):
    ...     "Every filling is as likely as any other."
    ...     def derive(self, tables):
    ...         zeros = tables.log_q[0].new_zeros(tables.shape)
    ...         return zeros.flatten().log_softmax(0).reshape(tables.shape)
    >>> tables = unmask.fill("The [MASK] [MASK].", candidates=4).joint.tables
    >>> joint = unmask.derive(tables, Flat())
    >>> joint.name, round(float(joint.dense().exp().max()), 4)
    ('flat', 0.0625)
    """

    style: ClassVar[Style] = Style("#666666", "d", "-.")
    """How figures draw it."""
    heading: ClassVar[str] = ""
    """The name in two lines, as the head of a narrow column; by default the name itself."""
    own_unary: ClassVar[bool] = True
    """Whether U-PPL is that of the joint's own conditionals. It is false where, as in the paper,
    the model's own conditionals are meant.
    """
    searched: ClassVar[bool] = False
    """Whether its fillings can be searched over the whole vocabulary, without tables."""
    keeps_compatible: ClassVar[bool] = True
    """Whether it returns the joint of tables that are the conditionals of one joint."""
    among_all: ClassVar[bool] = True
    """Whether it is meant by "all"."""

    @abstractmethod
    def derive(self, tables: Tables) -> Joint | Tensor:
        """The joint over the block of these tables, which has two blanks or more.

        Returns:
            A `Joint`, or the log-probabilities of all cells, a tensor of the shape of the block.
        """

    def stored(self) -> Any:
        """What the settings of a run keep of it: its name where that says all, else its options,
        and of own code the file and the hash.
        """
        usual = all(_is_usual(self, one) for one in fields(cast(Any, self)))
        spelled = type(self).name != self.name  # the name has the options in it
        if is_ours(type(self)) and (usual or spelled):
            return self.name
        return stored_form(self)


def _is_usual(construction: Construction, one: Any) -> bool:
    """Whether an option has its default, or has none to have."""
    return one.default is not MISSING and getattr(construction, one.name) == one.default


@method
class OfFunction(Construction):
    """A plain function of a user, from tables to a joint.

    Parameters:
        function: The function; its name is the construction's.
    """

    keeps_compatible = False  # a function cannot say whether it does
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if self.name in CONSTRUCTIONS:
            raise InputError(
                f"a function is called {self.name}, as a construction of ours is: rename it"
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The function's own name."""
        named = getattr(self.function, "__name__", type(self.function).__name__)
        return str(named).strip("<>")  # of a lambda, lambda

    @property
    def label(self) -> str:  # type: ignore[override]
        """The function's own name."""
        return self.name

    def derive(self, tables: Tables) -> Joint | Tensor:
        """What the function returns."""
        return cast("Joint | Tensor", self.function(tables))

    def stored(self) -> Any:
        """The name, the file of the function, and the hash of it."""
        return {"name": self.name, **code_of(self.function).stored}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_function_again, (code_of(self.function),))


def _function_again(code: Any) -> OfFunction:
    """The function of a user, in another process."""
    return OfFunction(code.load_sent())


# ---- how calls take constructions ----


@dataclass(frozen=True)
class TakesConstructions(TakesMethod):
    """Marks a parameter that takes several constructions, each once, or "all".

    also   names of sets of constructions that the function itself knows
    """

    also: tuple[str, ...] = ()

    def accepted(self, argument: str, value: Any) -> Any:
        """A tuple of constructions, or a name of `also`."""
        if isinstance(value, str):
            name = value.strip()
            if name == "all":
                return all_constructions()
            if name in self.also:
                return name
        taken = super().accepted(argument, value)
        names = [construction.name for construction in taken]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise InputError(
                    f"names {name} twice", argument=argument, use="name each construction once"
                )
        return taken


DERIVED = "How the joint is derived: a construction of `fill`."
WHERE = "unmask.joints.constructions.construction:CONSTRUCTIONS"
if TYPE_CHECKING:
    Rule: TypeAlias = str | Construction | Callable[[Tables], Joint | Tensor]
    """A construction, its name, or a plain function from tables to a joint."""
    Rules: TypeAlias = str | Iterable[Rule]
    """Several constructions, or their names with commas between them, or "all"."""
else:
    Rule = Annotated[
        Any,
        TakesMethod(WHERE),
        ShownType("str | Construction | Callable[[Tables], Joint | Tensor]"),
        Written(metavar="NAME", short="-c", help=DERIVED),
    ]
    Rules = Annotated[
        Any,
        TakesConstructions(WHERE, several=True),
        ShownType("str | Iterable[str | Construction | Callable[[Tables], Joint | Tensor]]"),
        Written(metavar="A,B"),
    ]


@cache
def all_constructions() -> tuple[Construction, ...]:
    """Those that "all" means, each with its defaults."""
    return tuple(cls() for cls in CONSTRUCTIONS.values() if cast(Any, cls).among_all)
