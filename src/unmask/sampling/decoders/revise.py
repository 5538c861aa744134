"""Revision (Savinov et al. 2022): predict all blanks at once, then every token again from the whole text, and repeat.

    step 1:           y_i = argmax q_i(. | all blank)                    for every site i
    step s = 2 ... S: y_i = argmax q_i(. | y, with y_i itself in sight)  for every site i, all from the same y

Nothing is masked after the first step: the model is asked for the right token where it sees one that may be wrong, which
`unmask train --refinement` teaches (`training/objectives.py`) and plain masked training does not. At temperature 0 a text that a
step does not change is final, and takes no further passes. The texts have no tractable probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.sampling.decoders.decoder import DecodeInfo, DecodeState, ParallelDecoder
from unmask.sampling.engine.randomness import Randomness


@dataclass(frozen=True)
class Revise(ParallelDecoder):
    """Every site is predicted at every step."""

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Predict all sites of the texts that are not settled; one pass for each of them."""
        before, going = state.ids.clone(), ~state.settled
        texts = going.nonzero().squeeze(1)
        if len(texts):
            self.predict(state, texts, torch.arange(self.target.sites, device=texts.device).expand(len(texts), -1), rng)
        if self.decoding_temperature == 0:
            state.settled |= (state.ids == before).all(1)
        state.steps += 1
        return DecodeInfo(going.unsqueeze(1).expand(state.confidence.shape), going.long())
