"""Decoders that predict all blanks of a text at once, keep some, and repeat.

What happens next depends on the tokens that are drawn, so these texts have no tractable
probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import Decoder, DecodeState, Steps, blank_sites

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.on_target import DecoderOnTarget


def blanks_left(sites: int, step: int, steps: int) -> int:
    """The number of blanks after step `step` of `steps`, counted from 1: floor(sites (1 - step
    / steps)).
    """
    return 0 if step >= steps else int(sites * (1 - step / steps) + 1e-9)


@method
class InSteps(Decoder):
    """A decoder of a given number of steps, which predict sites of all texts at once and leave
    fewer and fewer blanks.

    Parameters:
        passes: Steps to a whole text.
    """

    parts = "passes"
    passes: Steps = 10

    def steps(self, on: DecoderOnTarget) -> int:
        """`passes`."""
        return self.passes

    def predict(
        self,
        on: DecoderOnTarget,
        state: DecodeState,
        texts: Int[Tensor, " m"],
        sites: Int[Tensor, "m c"],
        rng: Randomness,
    ) -> None:
        """Predict the sites `sites` of the texts `texts` from one pass over each; writes ids
        and confidence.

        As states, those of all sites are computed, so that the calls of all steps have one
        shape and are recorded once.
        """
        target = on.target
        site = sites.flatten()
        row = texts.repeat_interleave(sites.shape[1])
        ids = state.ids[texts]
        if on.passes.as_states(ids):
            everywhere = on.passes.outputs(ids, target.free_positions.expand(len(ids), -1))
            width = everywhere.shape[-1]
            chosen = sites.unsqueeze(-1).expand(-1, -1, width)
            outputs = everywhere.gather(1, chosen).flatten(0, 1)
        else:
            outputs = on.passes.outputs(ids, target.free_positions[sites]).flatten(0, 1)
        drawn = rng.tokens(row, self.categoricals(on, outputs, site), site)
        state.write(target, row, site, drawn)

    def blanks_after(self, on: DecoderOnTarget, state: DecodeState) -> int:
        """The number of sites of every text that stay blank after the current step."""
        return blanks_left(on.target.sites, state.steps + 1, self.passes)

    def fill(self, on: DecoderOnTarget, state: DecodeState, rng: Randomness) -> Bool[Tensor, "n F"]:
        """Predict every blank site of every text from one pass, and say which sites.

        The number of blanks follows from the step, so the GPU need not be asked for it.
        """
        blank = blank_sites(on, state)
        count = blanks_left(on.target.sites, state.steps, self.passes)
        if count:
            blank_first = (~blank).byte().argsort(dim=1, stable=True)
            self.predict(on, state, state.rows, blank_first[:, :count], rng)
        return blank

    def end(
        self,
        on: DecoderOnTarget,
        state: DecodeState,
        filled: Bool[Tensor, "n F"],
        again: Bool[Tensor, "n F"],
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Mask the sites `again`; the state, and the passes of the step: one for each text in
        which it `filled` any.
        """
        free = on.target.free_positions
        state.ids[:, free] = torch.where(again, on.target.model.mask_id, state.ids[:, free])
        state.steps += 1
        return state, filled.any(1).long()
