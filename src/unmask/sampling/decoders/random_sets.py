"""Random sets of blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import DecodeState, lowest
from unmask.sampling.decoders.revealing import Observed, RevealingInSteps

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import DecoderOnTarget


@method
class RandomSets(RevealingInSteps):
    """A new text: random blanks filled, equal numbers per step.

        K_t = the next n_t blanks of a random order,   n_t = (blanks) / (passes left), rounded up

    The order is drawn for each text before it begins; its law is given the order.

    >>> decoder = unmask.RandomSets(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('random-sets', 2)
    """

    name = "random-sets"
    label = "random sets"
    colour = "#999933"
    place = 11
    step_passes = "`passes` per text"
    chooses = "blanks in a random order that the seed draws, equal numbers per pass"

    def is_random(self, sites: int) -> bool:
        """At temperature 0 only if there are several sets to draw."""
        sets = min(sites, self.passes)
        return sets > 1 or super().is_random(sites)

    def init(self, on: DecoderOnTarget, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = DecodeState.blank(on.target, n)
        state.order = rng.permutation(state.rows, on.target.sites)
        return state

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The next blanks of the random order."""
        place_in_order = observed.order.argsort(1).double()
        return lowest(place_in_order, observed.blank, observed.share)
