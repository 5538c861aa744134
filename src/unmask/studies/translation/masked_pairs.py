"""A masked model of pairs, as `unmask.train` leaves it in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path

import torch

from unmask.common.errors import InputError
from unmask.models.checkpoint import load_network, resolve_dtype
from unmask.models.checkpoint_files import Source as ModelSource
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
"""Rows of a call of the network, by device. A row is a draft, and the drafts of a call have one
length. On a GPU tens or hundreds of drafts have it, on a CPU a few. A call with fewer drafts than
rows is filled up with copies, which are computed for nothing.
"""
ROOM_MULTIPLE = 8  # On a CPU the room of a source is cut to a multiple of this many tokens


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
                f"{str(folder)!r} is a causal model, which fills no blanks",
                argument="model",
                use="give a masked one",
            )
        network = load_network(ModelSource(str(folder)), torch_device, torch_dtype)
        assert isinstance(network, BertMaskedLM)  # what `unmask train` writes
        network.bert.unseen = layout.pad  # no position attends to padding
        widen_output(network)  # in half precision: logits in float32
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
        """This model for texts with less padding between a source and its translation; weights are
        shared.

        The room is `layout.source_length`, the tokens before the translation: source and padding.
        On a CPU it is cut to what this source needs, rounded up to a multiple of ROOM_MULTIPLE,
        which saves computing the padding. The conditionals are the same: no position attends to
        the padding that is cut off, and every other token keeps its position embedding.

        On a GPU the room stays: with one room for all sources, more texts go side by side.
        """
        needed = len(source) + 2  # with its start and end token
        rounded_up = ceil(needed / ROOM_MULTIPLE) * ROOM_MULTIPLE
        room = min(self.layout.source_length, rounded_up)
        if self.model.device.type == "cuda" or room == self.layout.source_length:
            return self
        if room not in self._by_room:
            self._by_room[room] = self._with_room(room)
        return self._by_room[room]

    @cached_property
    def _by_room(self) -> dict[int, PairModel]:
        """The models that `in_room` has made, by their room."""
        return {}

    def _with_room(self, room: int) -> PairModel:
        """This model for texts whose sources have a room of `room` tokens."""
        full_room = self.layout.source_length
        network = self.model.network
        assert isinstance(network, BertMaskedLM)
        shortened = network.without_positions(room, full_room)
        model = MaskedLM(shortened, self.model.tokenizer, name=self.model.name)
        # The dependence profile is found by folder, and checked against the fingerprint
        model.folder = self.model.folder
        model.fingerprint = self.model.fingerprint
        max_length = self.layout.max_length - (full_room - room)
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
