"""Decoders that look at the tokens they drew: predict all blanks at once, keep some, and repeat.

Mask-predict (Ghazvininejad et al. 2019) masks the least confident again:

    step s = 1 ... S:  fill every blank from the present text;  mask the n_s sites of lowest confidence, n_S = 0
    n_s = F (1 - s/S), rounded down

A site's confidence is the probability of its token when it was last predicted. Tokens are the likeliest (temperature 0)
or drawn.

Confidence-ordered unmasking masks the least confident among those that were blank, so that it never looks back. With as many
steps as blanks this is easy-first decoding.

Revision (Savinov et al. 2022) predicts every token again from the whole text:

    step 1:           y_i = argmax q_i(. | all blank)                    for every site i
    step s = 2 ... S: y_i = argmax q_i(. | y, with y_i itself in sight)  for every site i, all from the same y

Nothing is masked after the first step: the model is asked for the right token where it sees one that may be wrong, which
`unmask train --refinement` teaches (`training/objectives.py`) and plain masked training does not. At temperature 0 a text that a
step does not change is final, and takes no further passes.

What happens next depends on the tokens that are drawn, so the texts have no tractable probability: these decode, and sample no
known distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.sampling import registry
from unmask.sampling.decoders.decoder import DecodeState, StepwiseDecoder, lowest
from unmask.sampling.engine.randomness import Randomness


def blanks_left(sites: int, step: int, steps: int) -> int:
    """How many of `sites` are blank after step `step` of `steps`, counted from 1; all of them before the first."""
    return 0 if step >= steps else int(sites * (1 - step / steps) + 1e-9)


@dataclass(frozen=True)
class ParallelDecoder(StepwiseDecoder):
    """A decoder that predicts sites of all texts at once, in a given number of steps."""

    options: registry.InSteps = registry.MaskPredict()

    @property
    def steps(self) -> int:
        """`passes`."""
        return self.options.passes

    def predict(self, state: DecodeState, texts: Int[Tensor, " m"], sites: Int[Tensor, "m c"], rng: Randomness) -> None:
        """Predict the sites `sites` of the texts `texts` from one pass over each; writes ids and confidence.

        As states, those of all sites are computed, so that the calls of all steps have one shape and are recorded once.
        """
        target, site, row = self.target, sites.flatten(), texts.repeat_interleave(sites.shape[1])
        ids = state.ids[texts]
        if self.passes.as_states(ids):
            everywhere = self.passes.conditionals(ids, target.free_positions.expand(len(ids), -1))
            kept = everywhere.gather(1, sites.unsqueeze(-1).expand(-1, -1, everywhere.shape[-1])).flatten(0, 1)
        else:
            kept = self.passes.conditionals(ids, target.free_positions[sites]).flatten(0, 1)
        state.write(target, row, site, rng.tokens(row, self.conditionals(kept, site), site))


@dataclass(frozen=True)
class ScheduledDecoder(ParallelDecoder):
    """A decoder whose steps leave fewer and fewer blanks."""

    def left(self, state: DecodeState) -> int:
        """How many sites of every text are blank after the step that is under way."""
        return blanks_left(self.target.sites, state.steps + 1, self.steps)

    def fill(self, state: DecodeState, rng: Randomness) -> Bool[Tensor, "n F"]:
        """Predict every blank site of every text from one pass, and say which sites.

        The number of blanks follows from the step, so the GPU need not be asked for it.
        """
        blank = self.blank(state)
        count = blanks_left(self.target.sites, state.steps, self.steps)
        if count:
            self.predict(state, state.rows, (~blank).byte().argsort(dim=1, stable=True)[:, :count], rng)
        return blank

    def end(
        self, state: DecodeState, filled: Bool[Tensor, "n F"], again: Bool[Tensor, "n F"]
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Mask the sites `again`; the state, and the passes of the step: one for each text in which it `filled` any."""
        state.mask(self.target, again)
        state.steps += 1
        return state, filled.any(1).long()


@dataclass(frozen=True)
class MaskPredict(ScheduledDecoder):
    """Every site may be predicted again, as long as it is among the least confident."""

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident sites."""
        filled = self.fill(state, rng)
        return self.end(state, filled, lowest(state.confidence, torch.ones_like(filled), self.left(state)))


@dataclass(frozen=True)
class ConfidenceOrder(ScheduledDecoder):
    """A site that was kept once is never predicted again."""

    options: registry.InSteps = registry.Confidence()

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill all blanks, then mask the least confident of them."""
        filled = self.fill(state, rng)
        return self.end(state, filled, lowest(state.confidence, filled, self.left(state)))


@dataclass(frozen=True)
class Revise(ParallelDecoder):
    """Every site is predicted at every step."""

    options: registry.InSteps = registry.Revise()

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Predict all sites of the texts that are not settled; one pass for each of them."""
        before, going = state.ids.clone(), ~state.settled
        texts = going.nonzero().squeeze(1)
        if len(texts):
            self.predict(state, texts, torch.arange(self.target.sites, device=texts.device).expand(len(texts), -1), rng)
        if self.options.decoding_temperature == 0:
            state.settled |= (state.ids == before).all(1)
        state.steps += 1
        return state, going.long()
