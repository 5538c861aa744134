"""The blanks of lowest entropy first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import lowest
from unmask.sampling.decoders.revealing import Observed, RevealingInSteps

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Tensor

    from unmask.sampling.on_target import DecoderOnTarget


@method
class LowestEntropy(RevealingInSteps):
    """A new text: the blanks of lowest entropy filled, equal numbers per step.

        K_t = the n_t blanks of lowest entropy,   n_t = (blanks) / (passes left), rounded up

    They are often neighbours of revealed tokens and of each other, so they depend on each other
    more than blanks of random sets. With one blank per pass this is the best order that is
    known without looking ahead.

    >>> decoder = unmask.LowestEntropy(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('lowest-entropy', 2)
    """

    name = "lowest-entropy"
    label = "lowest entropies"
    colour = "#BB5566"
    place = 10
    step_passes = "`passes` per text"
    chooses = "the blanks of lowest entropy, equal numbers per pass"

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The blanks of lowest entropy."""
        return lowest(observed.entropy, observed.blank, observed.share)
