"""Partly revealed texts: what is still hidden, and how it depends on what is revealed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from unmask.studies.lab.model import LabModel, Vector

PartialText = tuple[int | None, ...]
"""A value per site, None where it is hidden."""
Places = tuple[int, ...]
"""Hidden sites, each by its place among the hidden sites."""


@dataclass(frozen=True)
class HiddenSites:
    """The hidden sites of a partly revealed text.

    sites    their numbers, from left to right
    joint    their joint given what is revealed, with an axis per site
    chance   the probability of what is revealed
    """

    sites: tuple[int, ...]
    joint: Float[np.ndarray, " *values"]
    chance: float

    @classmethod
    def of(cls, model: LabModel, text: PartialText) -> HiddenSites:
        """Those of a text. Values that are impossible under p say nothing: the rest is then
        uniform.
        """
        index: list[int | slice] = []
        for value in text:
            if value is None:
                index.append(slice(None))  # all values of this site
            else:
                index.append(value)
        cells = model.p.reshape(model.space.sizes)[tuple(index)]
        chance = float(cells.sum())
        if chance > 0:
            joint = cells / chance
        else:
            joint = np.full(cells.shape, 1 / cells.size)
        sites = tuple(site for site, value in enumerate(text) if value is None)
        return cls(sites, joint, chance)

    def marginal(self, *places: int) -> Float[np.ndarray, " *values"]:
        """The joint of some of the hidden sites."""
        others = [place for place in range(len(self.sites)) if place not in places]
        return np.asarray(self.joint.sum(axis=tuple(others)))

    def entropy(self, *places: int) -> float:
        """H of some of the hidden sites, in nats."""
        return float(entr(self.marginal(*places)).sum())

    def total_correlation(self, places: Places) -> float:
        """TC of some of the hidden sites, in nats."""
        return sum(self.entropy(place) for place in places) - self.entropy(*places)

    def entropy_bound(self, places: Places) -> float:
        """The sum of the entropies minus the largest, which is at least TC."""
        entropies = [self.entropy(place) for place in places]
        return sum(entropies) - max(entropies)


def all_hidden(model: LabModel) -> PartialText:
    """The text of which nothing is revealed."""
    return (None,) * model.space.sites


def revealed(text: PartialText, values: Iterable[tuple[int, int]]) -> PartialText:
    """The text with these values, (site, value) each."""
    value_at = dict(values)
    return tuple(value_at.get(site, value) for site, value in enumerate(text))


def law_of_texts(model: LabModel, chances: Mapping[PartialText, float]) -> Vector:
    """A law from the probabilities of texts without a hidden site, (S,); it is 0 elsewhere."""
    law = np.zeros(model.space.sizes)
    for text, chance in chances.items():
        law[tuple(value for value in text if value is not None)] = chance
    return law.ravel()
