"""One group of independent decodings: a "sweep" decodes every text of the group anew."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.choose_kernel import decoder
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.markov_run import COUNTS, Snapshot, common_snapshot, restore_common
from unmask.sampling.passes import Passes, rows_for
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import ChainStreams
from unmask.sampling.settings import SampleSettings
from unmask.sampling.starts import Group
from unmask.sampling.state import complete, empty_state


class DecoderRun:
    """The same interface as `MarkovRun`; its texts do not depend on each other, and it has no starts."""

    def __init__(self, settings: SampleSettings, group: Group, proposal: Proposal) -> None:
        self.settings, self.group = settings, group
        self.passes = Passes(group.target.model, rows_for(group.target.model, settings.chains))
        self.decoder = decoder(settings, group.target, self.passes, proposal)
        self.streams = ChainStreams(settings.seed, group.chains)
        self.counts = torch.zeros((len(COUNTS), group.target.sites), dtype=torch.long)
        self.scoring_passes = 0
        self.done = 0

    def begin(self) -> None:
        """Nothing is needed before the first decoding."""
        self.spent = torch.zeros(len(self.group.chains), dtype=torch.long)
        self.starts = torch.tensor(self.group.target.template).repeat(len(self.group.chains), 1)

    def sweep(self) -> None:
        """Decode every text anew."""
        self.state, spent = decode(self.decoder, len(self.group.chains), self.streams.at(self.done + 1, 0))
        self.spent += spent
        self.done += 1

    def texts(self) -> Int[Tensor, "n T"]:
        """The latest texts."""
        return self.state.ids

    def energies(self) -> Float[Tensor, " n"]:
        """The latest texts' energies; their passes are counted apart."""
        state, spent = complete(self.group.target, self.passes, empty_state(self.group.target, self.state.ids))
        self.scoring_passes += int(spent.sum())
        return state.energy

    def log_probs(self) -> list[float | None]:
        """Exact given the order, where the decoder has a tractable probability."""
        return self.state.log_prob.tolist() if self.decoder.exact else [None] * len(self.group.chains)

    def snapshot(self) -> Snapshot:
        """Decodings do not depend on each other: there is no state besides the counts."""
        return common_snapshot(self)

    def restore(self, saved: Snapshot) -> None:
        """Go on after the last decoding that was kept."""
        restore_common(self, saved)
