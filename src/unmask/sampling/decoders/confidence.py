"""Confidence-ordered unmasking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import DecodeState, lowest
from unmask.sampling.decoders.in_steps import InSteps

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import DecoderOnTarget


@method
class Confidence(InSteps):
    """A new text: all blanks predicted, the most confident kept.

        step s = 1 ... S:  fill every blank from the present text;
                           of these, mask the F (1 - s/S) of lowest confidence, rounded down

    A site's confidence is the probability of its token when it was predicted. A site that was kept
    once is never predicted again. With as many steps as blanks this is easy-first decoding.

    >>> decoder = unmask.Confidence(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('confidence', 2)
    """

    name = "confidence"
    label = "most confident first"
    colour = "#555555"
    place = 7
    step_passes = "`passes` per text"

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident of them."""
        filled = self.fill(on, state, rng)
        again = lowest(state.confidence, filled, self.blanks_after(on, state))
        return self.end(on, state, filled, again)
