"""One group of independent decodings: a "sweep" decodes every text of the group anew."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.decoders.decoder import Decoder, DecodeState, decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.run.group_run import GroupRun, Snapshot
from unmask.sampling.run.groups import Group
from unmask.sampling.settings import SampleSettings


class DecoderRun(GroupRun):
    """The same interface as `MarkovRun`; its texts do not depend on each other, and its starts are blank."""

    def __init__(
        self, settings: SampleSettings, group: Group, passes: Passes, decoder: Decoder, saved: Snapshot | None = None
    ) -> None:
        super().__init__(settings, group, passes, saved)
        self.decoder = decoder
        self.streams = ChainStreams(settings.seed, group.chains, group.target.device)
        self.state = DecodeState.blank(group.target, len(group.chains))
        if saved is None:
            self.starts = self.state.ids
            self.spent = torch.zeros_like(self.state.rows)

    def sweep(self) -> None:
        """Decode every text anew."""
        self.state, spent = decode(self.decoder, len(self.group.chains), self.streams.at(self.done + 1, 0), self.group.starts)
        self.spent += spent
        self.done += 1

    def texts(self) -> Int[Tensor, "n T"]:
        """The latest texts."""
        return self.state.ids

    def energies(self) -> Float[Tensor, " n"]:
        """The latest texts' energies; all of their passes are scoring passes."""
        state = ChainState.at(self.group.target, self.state.ids)
        self.scoring_passes += int(state.complete(self.group.target, self.passes, keep=False).sum())
        return state.energy

    def log_probs(self) -> Float[Tensor, " n"] | None:
        """Exact given the order, where the decoder has a tractable probability."""
        return self.state.log_prob if self.decoder.exact else None
