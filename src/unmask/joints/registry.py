"""The constructions by name: the defaults of verbs, the rows of the published table, and what
tables and figures say of a construction of which they have the name alone. Nothing here loads
torch.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from unmask.joints.constructions.arnold_gokhale import ArnoldGokhale
from unmask.joints.constructions.construction import CONSTRUCTIONS as CONSTRUCTIONS
from unmask.joints.constructions.construction import Construction, Style

DEFAULT = "restarted"  # Of one or two blanks of a text, for which it was chosen
DEFAULT_OF_MUTANTS = "balanced"
"""Follows from the unary conditionals alone, as the single effects do that it is compared with;
exists for 2 to 4 residues.
"""
DEFAULT_OF_DEPENDENCE = (  # Of the dependence of two positions, and of what is sampled by it
    "pseudo_gibbs"
)
INDEPENDENT = "product"  # The blanks taken as independent: what the others are compared with
SEARCHED = "chain"  # From three blanks on the default, and the law of every search
PUBLISHED = (
    "product",
    "mrf_logit",
    "mrf",
    "hcb",
    "arnold_gokhale",
)  # The rows of Table 1 of Torroba Hennigen & Kim 2023
PUBLISHED_STEPS = 50  # After which the paper stops Arnold-Gokhale


def published() -> tuple[Construction, ...]:
    """The constructions of the published table, the iterated one as it was stopped there."""
    stopped = ArnoldGokhale(steps=PUBLISHED_STEPS)
    return tuple(stopped if name == stopped.name else named(name) for name in PUBLISHED)


def named(name: object, argument: str = "construction") -> Construction:
    """The construction that a value is or names."""
    if isinstance(name, str) and name in CONSTRUCTIONS:
        return _usual(name)
    return cast(Construction, CONSTRUCTIONS.taken(argument, name))


@cache
def _usual(name: str) -> Construction:
    """Ours of this name with its defaults, made once: to make one is to check its options."""
    return cast(Construction, CONSTRUCTIONS[name]())


def known(name: str) -> Construction | None:
    """Ours of that name; None for a user's own, whose code is not loaded for its name."""
    if name in CONSTRUCTIONS:
        return _usual(name)
    for cls in CONSTRUCTIONS.values():
        spelled = cast(Any, cls).spelled(name)
        if spelled is not None:
            return cast(Construction, spelled)
    return None


def label_of(name: str) -> str:
    """The label of a construction in tables and figures; an own one's is its name."""
    construction = known(name)
    if construction is None:
        return name
    return construction.label


def style_of(name: str) -> Style:
    """How figures draw a construction."""
    construction = known(name)
    if construction is None:
        return Construction.style
    return construction.style


def heading_of(name: str) -> str:
    """The name as the head of a narrow column."""
    construction = known(name)
    if construction is not None and construction.heading:
        return construction.heading
    return name.replace("_", "\n")


def name_of_stored(stored: Any) -> str:
    """The name of a construction in the settings of a run, as `Construction.stored` wrote them."""
    if isinstance(stored, str):
        return stored
    return str(stored["name"])
