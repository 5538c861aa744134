"""The scores that `assay` compares: those of variants, and those of texts, which `score` has.

    of variants   over the sites that vary and the alphabet only (`variants.scores`)
    of texts      of the variant's whole text: the number that `score` gives under that name

`all` is every score of variants, each with its defaults: scores of texts are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from unmask.common.border.marks import ShownType, TakesMethod, Written
from unmask.common.errors import InputError
from unmask.common.methods.registry import Together
from unmask.joints.constructions.construction import Construction
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.scoring.registry import each_once
from unmask.scoring.scores.score import SCORES, Score
from unmask.studies.variants.scores.score import VARIANT_SCORES, VariantScore

ASSAY_SCORES = Together(VARIANT_SCORES, SCORES)
ALL = "all"
FEWER_CHANGES = "fewer_changes"
"""The column of minus the number of changes, which is no score."""
PER_CHANGE = "/change"
"""After the name of a score: divided by the number of changes."""


@dataclass(frozen=True)
class TakesAssayScores(TakesMethod):
    """Marks a parameter that takes several scores, or "all"."""

    def accepted(self, argument: str, value: Any) -> Any:
        """A tuple of scores."""
        if isinstance(value, str) and value.strip() == ALL:
            return tuple(cls() for cls in VARIANT_SCORES.values())
        return super().accepted(argument, value)


if TYPE_CHECKING:
    AssayScores: TypeAlias = str | VariantScore | Score | Iterable[str | VariantScore | Score]
else:
    AssayScores = Annotated[
        Any,
        TakesAssayScores("unmask.studies.variants.assay_scores:ASSAY_SCORES", several=True),
        ShownType("str | VariantScore | Score | Iterable[str | VariantScore | Score]"),
        Written(metavar="A,B", short="-s"),
    ]


@dataclass(frozen=True)
class ChosenScores:
    """The scores of a call, each once.

    of_variants    over the sites and the alphabet, with their constructions
    of_texts       of the variants' whole texts
    construction   of the scores that need one and name none
    """

    of_variants: tuple[VariantScore, ...]
    of_texts: tuple[Score, ...]
    construction: Construction


def chosen_scores(
    scores: Sequence[VariantScore | Score], construction: Construction | None
) -> ChosenScores:
    """The scores, apart by what they are of, each once.

    construction   what the user gave, None by default; refused if no score uses it
    """
    usual = named(DEFAULT_OF_MUTANTS) if construction is None else construction
    of_variants = []
    is_used = False
    for score in scores:
        if isinstance(score, VariantScore):
            completed = score.for_construction(usual)
            is_used = is_used or completed is not score
            of_variants.append(completed)
    if construction is not None and not is_used:
        raise InputError(
            "was given, and no score that uses it",
            argument="construction",
            use="compare epistasis or pairs, too, or leave it out",
        )
    of_texts = [score for score in scores if not isinstance(score, VariantScore)]
    return ChosenScores(
        of_variants=each_once(of_variants),
        of_texts=each_once(of_texts),
        construction=usual,
    )
