"""A masked model of pairs, as `unmask train --parallel` leaves it in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from unmask.common.errors import InputError
from unmask.models.checkpoint import load_network, resolve_dtype
from unmask.models.checkpoint_files import Source as Folder
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.float32_logits import widen_output
from unmask.models.length_head import LengthHead, pooled_states
from unmask.models.masked_lm import MaskedLM
from unmask.models.pair_layout import PairLayout, read_layout
from unmask.runs.devices import resolve_device
from unmask.sampling.engine.passes import Passes
from unmask.studies.translation.recipe import PairTranslator
from unmask.studies.translation.spelling import Spelling

GPU_ROWS = 128
CPU_ROWS = 4
"""Rows of a call. On a GPU drafts of one length are tens or hundreds, on a CPU a few; what a call
has too few of is computed for nothing.
"""
ROOMS = 8  # On a CPU the room of a source is cut to a multiple of this many tokens


@dataclass(frozen=True)
class PairModel(PairTranslator):
    """A masked model that translates.

    model     the network and its tokenizer
    layout    where source and translation are in a text
    spelling  from sentences to tokens and back
    lengths   predicts how long a translation is
    corrects  whether it was trained to correct tokens that it sees
    """

    model: MaskedLM
    layout: PairLayout
    spelling: Spelling
    lengths: LengthHead
    corrects: bool = False

    @classmethod
    def load(cls, folder: Path, device: str = "auto", dtype: str = "auto") -> PairModel:
        """Read a folder; `device` and `dtype` are those of `MaskedLM.load`."""
        torch_device = resolve_device(device)
        torch_dtype = resolve_dtype(dtype)
        spelling = Spelling(folder)
        layout, objective, corrects = read_layout(folder, spelling.core.get_vocab())
        if objective != "masked":
            raise InputError(
                f"model {str(folder)!r} is a causal model, which fills no blanks: give a masked one"
            )
        network = load_network(Folder(str(folder)), torch_device, torch_dtype)
        assert isinstance(network, BertMaskedLM)  # what `unmask train` writes
        network.bert.unseen = layout.pad
        widen_output(network)
        model = MaskedLM(network, spelling.tokenizer, name=str(folder))
        model.folder = folder
        return cls(
            model=model,
            layout=layout,
            spelling=spelling,
            lengths=LengthHead.load(folder).to(model.device),
            corrects=corrects,
        )

    @property
    def device(self) -> torch.device:
        """The device that the network is on."""
        return self.model.device

    @property
    def fingerprint(self) -> str:
        """A hash of the weights."""
        return self.model.fingerprint

    @property
    def name(self) -> str:
        """The folder."""
        return self.model.name

    @cached_property
    def passes(self) -> Passes:
        """How the model is run; calls recorded on a GPU for each length of texts are reused as
        long as the model is loaded.
        """
        rows = GPU_ROWS if self.model.device.type == "cuda" else CPU_ROWS
        return Passes(self.model, rows)

    def in_room(self, source: Sequence[int]) -> PairModel:
        """This model for texts with a room of no more tokens than the source needs, rounded up;
        weights are shared.

        Nobody looks at the padding that is cut off, and every other token keeps its position, so
        that the conditionals are the same; a CPU is spared the padding. A GPU keeps to one room:
        it would rather have more texts side by side.
        """
        needed = len(source) + 2  # with its start and end token
        rounded_up = -(-needed // ROOMS) * ROOMS
        room = min(self.layout.source_length, rounded_up)
        if self.model.device.type == "cuda" or room == self.layout.source_length:
            return self
        if room not in self._by_room:
            self._by_room[room] = self._with_room(room)
        return self._by_room[room]

    @cached_property
    def _by_room(self) -> dict[int, PairModel]:
        return {}

    def _with_room(self, room: int) -> PairModel:
        """This model for texts whose sources have a room of so many tokens."""
        cut = self.layout.source_length - room
        network = self.model.network
        assert isinstance(network, BertMaskedLM)
        shortened = network.without_positions(room, room + cut)
        model = MaskedLM(shortened, self.model.tokenizer, name=self.model.name)
        model.folder = self.model.folder  # the same model, so its profile holds
        model.fingerprint = self.model.fingerprint
        max_length = self.layout.max_length - cut
        layout = replace(self.layout, source_length=room, max_length=max_length)
        return replace(self, model=model, layout=layout)

    def likely_lengths(
        self, sources: Sequence[Sequence[int]], k: int
    ) -> list[list[tuple[int, float]]]:
        """The k likeliest numbers of tokens of each source's translation, and their
        log-probabilities.
        """
        if not sources:
            return []
        network = self.model.network
        assert isinstance(network, BertMaskedLM)
        with torch.no_grad():
            pooled, tokens = pooled_states(network.bert, self.layout, sources)
            likeliest = self.lengths(pooled, tokens).topk(k, -1)
        lengths = (likeliest.indices + 1).tolist()  # the head's first output is length 1
        log_probs = likeliest.values.tolist()
        of_sources = []
        for lengths_of_source, log_probs_of_source in zip(lengths, log_probs, strict=True):
            of_sources.append(list(zip(lengths_of_source, log_probs_of_source, strict=True)))
        return of_sources
