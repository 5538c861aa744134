"""Revision of the whole text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import DecodeState
from unmask.sampling.decoders.in_steps import InSteps

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import DecoderOnTarget


@method
class Revise(InSteps):
    """A new text: all blanks predicted, then every token again from the whole text.

        step 1:           y_i = argmax q_i(. | all blank)                         for every site i
        step s = 2 ... S: y_i = argmax q_i(. | y, with y_i itself in sight)       for every site i

    (Savinov et al. 2022.) All sites of a step see the same y. Nothing is masked after the first
    step: the model is asked for the right token where it sees one that may be wrong, which
    `unmask train --refinement` teaches (`studies/training/objectives.py`) and plain masked training
    does not. At temperature 0 a text that a step does not change is final, and takes no further
    passes.

    >>> decoder = unmask.Revise(passes=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('revise', 2)
    """

    name = "revise"
    label = "revision"
    colour = "#332288"
    place = 8
    step_passes = "at most `passes` per text"
    corrects = True

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Predict all sites of the texts that are not settled; one pass for each of them."""
        before = state.ids.clone()
        going = ~state.settled
        texts = going.nonzero().squeeze(1)
        if len(texts):
            every_site = torch.arange(on.target.sites, device=texts.device)
            self.predict(on, state, texts, every_site.expand(len(texts), -1), rng)
        if self.token_temperature == 0:
            state.settled |= (state.ids == before).all(1)
        state.steps += 1
        return state, going.long()
