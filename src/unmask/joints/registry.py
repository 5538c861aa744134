"""Every construction by name: what commands, tables and figures need to know of it, without
loading torch.

To add a construction, write its file and add one line here. Names with numbers, such as
`family:0.5,0.25`, are read by `named` and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from unmask.common.checks import one_of, real
from unmask.common.errors import InputError

if TYPE_CHECKING:
    from unmask.joints.joint import Joint


@dataclass(frozen=True)
class Style:
    """Colour, marker and line of a construction in figures; colour-blind readers can
    distinguish the colours too.
    """

    colour: str
    marker: str
    line: str


class Member(NamedTuple):
    """A member of the near-compatible family with restarts: its two parameters, each from 0 to
    1.
    """

    alpha: float
    restart: float = 0.0


@dataclass(frozen=True)
class Construction:
    """A rule from tables to a joint.

    name        as it is given on the command line and in Python
    label       as tables and figures call it
    factory     "module:function" of the rule: (tables, **options) -> Joint; loaded when first used
    style       in figures
    options     the keyword options that the rule takes
    member      parameters of a member of the near-compatible family (see
                `unmask.joints.arnold_gokhale`); None for other rules
    own_unary   False where U-PPL is that of the model's own unary conditionals, as in the paper
    searched    its fillings can be searched over the whole vocabulary, without tables of candidates
    heading     the name in two lines, as the head of a narrow column; by default the name itself
    """

    name: str
    label: str
    factory: str
    style: Style
    options: tuple[str, ...] = ()
    member: Member | None = None
    own_unary: bool = True
    searched: bool = False
    heading: str = ""

    def rule(self) -> Callable[..., Joint]:
        """The function that derives the joint from tables."""
        module, function = self.factory.split(":")
        rule: Callable[..., Joint] = getattr(import_module(module), function)
        return rule

    @property
    def meaning(self) -> str:
        """One sentence for people who choose among them."""
        return MEANINGS.get(self.name, "")

    def check(self, options: Iterable[str]) -> None:
        """Refuse options that this construction does not take."""
        for option in options:
            if option not in self.options:
                takes = (
                    f"its options are {', '.join(self.options)}"
                    if self.options
                    else "it takes none"
                )
                raise InputError(f"construction {self.name} has no option {option!r}: {takes}")


HERE = "unmask.joints"
CLOSED = f"{HERE}.closed_forms"


def _of_family(
    name: str, label: str, style: Style, member: Member | None = None, heading: str = ""
) -> Construction:
    return Construction(
        name,
        label,
        f"{HERE}.arnold_gokhale:family",
        style,
        ("steps", "tolerance"),
        member,
        heading=heading,
    )


CONSTRUCTIONS: dict[str, Construction] = {
    construction.name: construction
    for construction in (
        Construction(
            "product",
            "MLM (product)",
            f"{CLOSED}:product",
            Style("#000000", "o", "-"),
            own_unary=False,
            heading="prod-\nuct",
        ),
        Construction(
            "mrf_logit", "MRF (logit)", f"{CLOSED}:mrf_logit", Style("#CC79A7", "v", "--")
        ),
        Construction("mrf", "MRF", f"{CLOSED}:mrf", Style("#D55E00", "^", "--")),
        Construction("hcb", "HCB", f"{CLOSED}:hcb", Style("#E69F00", "s", "--"), ("pivot",)),
        _of_family(
            "arnold_gokhale",
            "Arnold-Gokhale",
            Style("#0072B2", "D", "-"),
            Member(0.0),
            "arn.\ngokh.",
        ),
        _of_family("balanced", "balanced", Style("#009E73", "P", "-"), Member(0.5), "bal-\nanced"),
        _of_family(
            "pseudo_gibbs", "pseudo-Gibbs", Style("#56B4E9", "X", "-"), Member(1.0), "ps.\ngibbs"
        ),
        _of_family(
            "restarted", "restarted", Style("#882255", "p", "-"), Member(0.75, 0.1), "re-\nstart"
        ),
        Construction(
            "chain", "chain", f"{CLOSED}:chain", Style("#7F7F7F", "*", ":"), searched=True
        ),
    )
}
MEANINGS = {
    "product": (
        "The blanks are independent: each has the probability that the model gives it with all"
        " blanks masked."
    ),
    "mrf_logit": (
        "A random field: the logits of all blanks are summed, then normalised; it counts their"
        " dependence twice."
    ),
    "mrf": (
        "A random field: the conditionals of all blanks are multiplied, then normalised; it counts"
        " their dependence twice."
    ),
    "hcb": (
        "Hammersley-Clifford-Besag: ratios of conditionals along a path from one pivot word; the"
        " answer depends on the pivot."
    ),
    "arnold_gokhale": (
        "The joint whose conditionals are closest to the model's if every context counts the same."
    ),
    "balanced": (
        "The joint whose conditionals are closest to the model's if contexts count by the root of"
        " their probability."
    ),
    "pseudo_gibbs": (
        "The joint that redrawing one blank after the other from the model's conditionals ends in."
    ),
    "restarted": (
        "Like pseudo-Gibbs, drawn a tenth of the way to the chain rule; it predicts text best, and"
        " is the default."
    ),
    "chain": "The chain rule: blanks are filled one after the other, averaged over all orders.",
}
FAMILY = _of_family("family", "family", Style("#8C564B", "h", "-."))
"""Any other member, `family:ALPHA,LAMBDA`; LAMBDA is 0 if left out."""
DEFAULT = "restarted"  # Of one or two blanks of a text, for which it was chosen
DEFAULT_OF_MUTANTS = "balanced"
"""Follows from the unary conditionals alone, as the single effects do that it is compared with;
exists for 2 to 4 residues.
"""
DEFAULT_OF_DEPENDENCE = (  # Of the dependence of two positions, and of what is sampled by it
    "pseudo_gibbs"
)
INDEPENDENT = "product"  # The blanks taken as independent: what the others are compared with
SEARCHED = next(name for name, construction in CONSTRUCTIONS.items() if construction.searched)
"""From three blanks on the default, and the law of every search."""
PUBLISHED = (
    "product",
    "mrf_logit",
    "mrf",
    "hcb",
    "arnold_gokhale",
)  # The rows of Table 1 of Torroba Hennigen & Kim 2023
PUBLISHED_STEPS = "arnold_gokhale"  # The construction that the paper stops after a number of steps
FORMS = (
    *CONSTRUCTIONS,
    "family:ALPHA,LAMBDA",
)  # All that `named` understands, for help texts and errors


def named(name: object, argument: str = "construction") -> Construction:
    """The construction of that name; `argument` is what the caller's argument is called."""
    if isinstance(name, str) and name in CONSTRUCTIONS:
        return CONSTRUCTIONS[name]
    if isinstance(name, str) and name.startswith("family:"):
        try:
            return family_construction(*map(float, name.removeprefix("family:").split(",")))
        except (TypeError, ValueError):
            raise InputError(
                f"{argument} {name!r} is not understood: give one or two numbers, such as"
                " family:0.5,0.25"
            ) from None
    return CONSTRUCTIONS[one_of(argument, name, FORMS)]


def family_construction(alpha: float, restart: float = 0.0) -> Construction:
    """The member of the near-compatible family with these parameters, under the name that leads
    to it.
    """
    parameters = Member(real("alpha", alpha, 0, 1), real("lambda", restart, 0, 1))
    name = f"family:{parameters.alpha:.10g},{parameters.restart:.10g}"
    return replace(FAMILY, name=name, label=f"α {alpha:g}, λ {restart:g}", member=parameters)


def all_named(constructions: str | Iterable[str]) -> list[Construction]:
    """Several constructions, each once: a list of names, or one text with commas between them,
    or "all".
    """
    if constructions == "all":
        return list(CONSTRUCTIONS.values())
    names = (
        comma_separated(constructions)
        if isinstance(constructions, str)
        else constructions
        if isinstance(constructions, Iterable)
        else [constructions]
    )
    wanted = [named(name, "constructions") for name in names]
    if not wanted:
        raise InputError(
            f"constructions names no construction: use one or more of {', '.join(FORMS)}"
        )
    if twice := [
        construction.name for n, construction in enumerate(wanted) if construction in wanted[:n]
    ]:
        raise InputError(f"constructions names {twice[0]} twice: name each construction once")
    return wanted


def comma_separated(text: str) -> list[str]:
    """The names in a text with commas: a number belongs to the name before it."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and ":" in parts[-1] and not part.strip()[:1].isalpha():
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    return parts
