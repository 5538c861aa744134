"""Every construction by name: what commands, tables and figures need to know of it, without loading torch.

To add a construction, write its file and add one line here. Names with numbers, such as `family:0.5`, are read by `named`
and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING

from unmask.checks import numbers, one_of, real
from unmask.errors import InputError

if TYPE_CHECKING:
    from unmask.joints.joint import Joint

ITERATED = ("steps", "tolerance")


@dataclass(frozen=True)
class Style:
    """Colour, marker and line of a construction in figures; the colours are told apart by colour-blind readers too."""

    colour: str
    marker: str
    line: str


@dataclass(frozen=True)
class Construction:
    """A rule from tables to a joint.

    name        as it is given on the command line and in Python
    label       as tables and figures call it
    factory     "module:function" of the rule: (tables, **options) -> Joint; loaded when first used
    style       in figures
    options     the keyword options that the rule takes
    alpha       of a member of the near-compatible family (see `unmask.joints.arnold_gokhale`); None for other rules
    ordered     depends on the order of the blanks where the tables are incompatible
    normalised  its cells sum to one as they stand; the normaliser of others is summed over all fillings
    own_unary   False where U-PPL is that of the model's own unary conditionals, as in the paper
    """

    name: str
    label: str
    factory: str
    style: Style
    options: tuple[str, ...] = ()
    alpha: float | None = None
    ordered: bool = False
    normalised: bool = False
    own_unary: bool = True
    numbers: Mapping[str, float] = field(default_factory=dict)

    def rule(self) -> Callable[..., Joint]:
        """The function that derives the joint from tables."""
        module, function = self.factory.split(":")
        found: Callable[..., Joint] = getattr(import_module(module), function)
        return found

    def check(self, options: Iterable[str]) -> None:
        """Refuse options that this construction does not take."""
        for option in options:
            if option not in self.options:
                takes = f"its options are {', '.join(self.options)}" if self.options else "it takes none"
                raise InputError(f"construction {self.name} has no option {option!r}: {takes}")


HERE = "unmask.joints"
AG = f"{HERE}.arnold_gokhale"
CONSTRUCTIONS: dict[str, Construction] = {
    construction.name: construction
    for construction in (
        Construction(
            "product", "MLM (product)", f"{HERE}.product:product", Style("#000000", "o", "-"), normalised=True, own_unary=False
        ),
        Construction("mrf_logit", "MRF (logit)", f"{HERE}.mrf:mrf_logit", Style("#CC79A7", "v", "--")),
        Construction("mrf", "MRF", f"{HERE}.mrf:mrf", Style("#D55E00", "^", "--")),
        Construction("hcb", "HCB", f"{HERE}.hcb:hcb", Style("#E69F00", "s", "--"), ("pivot",), ordered=True),
        Construction(
            "arnold_gokhale", "Arnold-Gokhale", f"{AG}:arnold_gokhale", Style("#0072B2", "D", "-"), ITERATED, 0.0, normalised=True
        ),
        Construction("balanced", "balanced", f"{AG}:balanced", Style("#009E73", "P", "-"), ITERATED, 0.5, normalised=True),
        Construction(
            "pseudo_gibbs", "pseudo-Gibbs", f"{AG}:pseudo_gibbs", Style("#56B4E9", "X", "-"), ITERATED, 1.0, normalised=True
        ),
        Construction("chain", "chain", f"{HERE}.chain:chain", Style("#7F7F7F", "*", ":"), ("order",), normalised=True),
    )
}
FAMILY = Construction("family", "family", f"{AG}:family", Style("#8C564B", "h", "-."), ITERATED, normalised=True)
"""Any other member, `family:ALPHA`."""
DEFAULT = "balanced"
FORMS = (*CONSTRUCTIONS, "family:ALPHA")
"""All that `named` understands, for help texts and errors."""


def named(given: object, argument: str = "construction") -> Construction:
    """The construction of that name; `argument` is what the caller's argument is called."""
    if isinstance(given, str) and given.startswith("family:"):
        values = numbers(argument, given.removeprefix("family:"), float)
        if len(values) != 1:
            raise InputError(f"{argument} {given!r} has {len(values)} numbers: give one, such as family:0.5")
        return member(*values)
    return CONSTRUCTIONS[one_of(argument, given, FORMS)]


def member(alpha: float) -> Construction:
    """The member of the near-compatible family with that parameter, by the name that leads to it."""
    alpha = real("alpha", alpha, 0, 1)
    return replace(FAMILY, name=f"family:{alpha!r}", label=f"α = {alpha:g}", alpha=alpha, numbers={"alpha": alpha})


def all_named(given: str | Iterable[str], argument: str = "joints") -> list[Construction]:
    """Several constructions, each once: a list of names, or one text with commas between them, or "all"."""
    if given == "all":
        return list(CONSTRUCTIONS.values())
    names_given = _parts(given) if isinstance(given, str) else given if isinstance(given, Iterable) else [given]
    found = [named(name, argument) for name in names_given]
    names = [construction.name for construction in found]
    if not names:
        raise InputError(f"{argument} names no construction: use one or more of {', '.join(FORMS)}")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{argument} names {name} twice: name each construction once")
    return found


def _parts(text: str) -> list[str]:
    """The names in a text with commas: a number belongs to the name before it."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and ":" in parts[-1] and not part.strip()[:1].isalpha():
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    return parts
