"""Scores of variants that need only the parent w and its neighbours.

    single effect   e_t(x)    = log q_t(x | w) - log q_t(w_t | w)
    epistasis       E_st(x,y) = log mu(x, y) - log mu(w_s, w_t) - e_s(x) - e_t(y),
                    mu the joint that a construction derives for s and t in the parent

    singles               sum over changes of e_t(x_t)
    epistasis             sum over pairs of changes of E_st(x_s, x_t)
    pairs:CONSTRUCTION    singles + epistasis

`ParentScores` computes them together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, cast

from unmask.common.border.marks import PYTHON_ONLY
from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.methods.method import method
from unmask.joints.constructions.construction import Construction, Rule
from unmask.joints.registry import named
from unmask.studies.variants.scores.score import VariantScore


@method
class Singles(VariantScore):
    """sum over the changes of log q(x_t | w) - log q(w_t | w): each change alone in the parent"""

    name = "singles"
    place = 10


@method
class Epistasis(VariantScore):
    """sum over pairs of changed sites of log mu(x_s, x_t) - log mu(w_s, w_t) - the pair's
    singles, mu the joint that a construction derives for s and t in the parent
    """

    construction: Annotated[Rule | None, PYTHON_ONLY] = None

    name = "epistasis"
    place = 60

    @property
    def construction_of_pairs(self) -> Construction | None:
        """The construction."""
        return cast("Construction | None", self.construction)

    def for_construction(self, construction: Construction) -> Epistasis:
        """The score, with this construction if it has none of its own."""
        if self.construction is not None:
            return self
        return replace(self, construction=construction)


@method
class Pairs(VariantScore):
    """singles + epistasis; typed as pairs, or as pairs:CONSTRUCTION"""

    construction: Annotated[Rule | None, PYTHON_ONLY] = None

    name = "pairs"  # an object that names its construction has it in its name
    place = 70

    def __post_init__(self) -> None:
        if self.construction is not None:
            construction = cast(Construction, self.construction)
            # A frozen dataclass sets its own attributes in this way.
            object.__setattr__(self, "name", f"{Pairs.name}:{construction.name}")

    @classmethod
    def spelled(cls, text: str) -> Pairs | None:
        """The score that pairs:CONSTRUCTION spells."""
        kind, colon, construction = text.partition(":")
        if kind != cls.name or not colon:
            return None
        try:
            return cls(named(construction, "construction"))
        except InputError as error:
            raise InputError(f"{shown(text)}: {error.marked}", argument="score") from None

    @property
    def construction_of_pairs(self) -> Construction | None:
        """The construction."""
        return cast("Construction | None", self.construction)

    def for_construction(self, construction: Construction) -> Pairs:
        """The score, with this construction if none was spelled."""
        if self.construction is not None:
            return self
        return Pairs(construction)
