"""What a score of variants is.

Variants x of a parent w differ from it at some of k sites, and every other token is the parent's.
Write q(x_t | x_S) for the model's probability of x_t where the sites of S are revealed and all
other sites are masked; q is over the alphabet.

Most scores are means over chains:

    score(x) = log mean over chains C of exp( sum over (S, t) in C of log q(x_t | x_S) )

A chain is one term (S, t) per site t. Terms with the same S share their passes, whichever score
asks, and so do variants with the same x_S (`contexts.py`). The others need the parent's
neighbours only (`parent_scores.py`).

A score of texts (`unmask.scoring`) also ranks variants: it is then of the variant's whole text, by
the name and with the number that `score` gives (`assay_scores.py`).
"""

from __future__ import annotations

from typing import ClassVar

from unmask.common.methods.method import Method
from unmask.common.methods.registry import Registry
from unmask.joints.constructions.construction import Construction

VARIANT_SCORES = Registry("score of variants", folders=("unmask.studies.variants.scores",))
Chain = list[tuple[int, int]]
"""Terms (S, t); S is a number whose bit i is 1 if site i is revealed."""


class VariantScore(Method, registry=VARIANT_SCORES):
    """A score of variants."""

    probability: ClassVar[bool] = False
    """Whether exp(score) sums to 1 over all variants."""
    extra: ClassVar[tuple[str, ...]] = ()
    """Further columns of numbers that come with it, named NAME_suffix."""

    def chains(self, sites: int) -> list[Chain]:
        """The chains over the sites of variants; none if the score is no mean over chains."""
        return []

    @property
    def construction_of_pairs(self) -> Construction | None:
        """The construction that derives the joints of pairs of sites, if the score needs them."""
        return None

    def for_construction(self, construction: Construction) -> VariantScore:
        """The score, with this construction if it has none of its own."""
        return self
