"""Mask-predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import DecodeState, lowest
from unmask.sampling.decoders.in_steps import InSteps

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import DecoderOnTarget


@method
class MaskPredict(InSteps):
    """A new text: all blanks predicted, the least confident again.

        step s = 1 ... S:  fill every blank from the present text;
                           mask the F (1 - s/S) sites of lowest confidence, rounded down

    (Ghazvininejad et al. 2019.) A site's confidence is the probability of its token when it was
    last predicted. Tokens are drawn, or the likeliest (temperature 0). Every site may be predicted
    again, as long as it is among the least confident.

    >>> decoder = unmask.MaskPredict(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('mask-predict', 2)
    """

    name = "mask-predict"
    label = "mask-predict"
    colour = "#882255"
    place = 6
    step_passes = "`passes` per text"

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident sites."""
        filled = self.fill(on, state, rng)
        every_site = torch.ones_like(filled)
        again = lowest(state.confidence, every_site, self.blanks_after(on, state))
        return self.end(on, state, filled, again)
