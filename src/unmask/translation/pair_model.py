"""A masked model of pairs: what the samplers ask, its layout, its spelling, and how long translations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from unmask.checks import whole
from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.encoder.head import widen_output
from unmask.models.loading import load_network, resolve_device, resolve_dtype
from unmask.models.masked_lm import MaskedLM
from unmask.models.source import Source
from unmask.models.text.spelling import Spelling
from unmask.sampling.engine.passes import Passes
from unmask.translation.pairs import LengthHead, PairLayout, corrects, pooled_states, read_layout, refuse_other_tokens

GPU_ROWS, CPU_ROWS = 128, 4
"""Of a call: on a GPU drafts of one length are tens or hundreds, on a CPU a few; what a call has too few of is computed for
nothing."""
ROOMS = 8
"""On a CPU the room of a source is cut to a multiple of this many tokens."""


@dataclass(frozen=True)
class PairModel:
    """A folder of `unmask train --parallel`, loaded; `corrects`: it was trained to correct tokens that it sees."""

    model: MaskedLM
    layout: PairLayout
    spelling: Spelling
    lengths: LengthHead
    corrects: bool = False

    @classmethod
    def load(cls, folder: Path, device: str = "auto", dtype: str = "auto") -> PairModel:
        """Read a folder; `device` and `dtype` are those of `MaskedLM.load`."""
        on, kind = resolve_device(device), resolve_dtype(dtype)
        spelling = Spelling.read(folder)
        layout, objective = read_layout(folder, spelling.special)
        if objective != "masked":
            raise InputError(f"model {str(folder)!r} is a causal model, which fills no blanks: give --decoder greedy or beam")
        network = load_network(Source(str(folder)), on, kind)
        assert isinstance(network, BertMaskedLM)
        refuse_other_tokens(folder, spelling.special, network.config.vocab_size)
        network.bert.unseen = layout.pad
        widen_output(network)
        model = MaskedLM(network, spelling.tokenizer, name=str(folder))
        return cls(model, layout, spelling, LengthHead.load(folder).to(model.device), corrects(folder))

    @cached_property
    def passes(self) -> Passes:
        """How the model is run; calls recorded on a GPU for each length of texts are reused as long as the model is loaded."""
        return Passes(self.model, GPU_ROWS if self.model.device.type == "cuda" else CPU_ROWS)

    def in_room(self, source: Sequence[int]) -> PairModel:
        """This model for texts with a room of no more tokens than the source needs, rounded up; weights are shared.

        Nobody looks at the padding that is cut off, and every other token keeps its position, so that the conditionals are the
        same; a CPU is spared the padding. A GPU keeps to one room: it would rather have more texts side by side.
        """
        room = min(self.layout.source_length, -(-(len(source) + 2) // ROOMS) * ROOMS)
        if self.model.device.type == "cuda" or room == self.layout.source_length:
            return self
        if room not in self._rooms:
            network, cut = self.model.network, self.layout.source_length - room
            assert isinstance(network, BertMaskedLM)
            model = MaskedLM(network.without_positions(room, room + cut), self.model.tokenizer, name=self.model.name)
            layout = replace(self.layout, source_length=room, max_length=self.layout.max_length - cut)
            self._rooms[room] = replace(self, model=model, layout=layout)
        return self._rooms[room]

    @cached_property
    def _rooms(self) -> dict[int, PairModel]:
        return {}

    def likely_lengths(self, sources: Sequence[Sequence[int]], k: int) -> list[list[tuple[int, float]]]:
        """The k likeliest numbers of tokens of each source's translation, and their log-probabilities."""
        whole("lengths", k, 1, self.layout.longest_target)
        if not sources:
            return []
        device = self.model.device
        rooms = torch.tensor([self.layout.room(source) for source in sources], device=device)
        network = self.model.network
        assert isinstance(network, BertMaskedLM)
        pooled = pooled_states(network.bert, rooms, self.layout.pad)
        tokens = torch.tensor([len(source) for source in sources], device=device)
        with torch.no_grad():
            found = self.lengths(pooled, tokens).topk(k, -1)
        both = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [[(index + 1, value) for index, value in zip(*row, strict=True)] for row in both]
