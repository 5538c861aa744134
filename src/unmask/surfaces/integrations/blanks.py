"""Texts with blanks that a decoder fills, for the requests of the LM Evaluation Harness.

A text's random choices depend on the text and its seed alone, not on those it is decoded with.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

import torch

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import shortened
from unmask.sampling.decoders.decoder import Decoder, decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.target import Target
from unmask.scoring.text_batch import GPU_LOGITS
from unmask.tables.conditionals import logit_rows

MOST_WRITTEN = 10_000
"""Decoded texts in memory: answers of one length to one question have the same blanks."""
UNREAD = ("top_p", "top_k", "num_beams", "min_p", "repetition_penalty")
"""Settings of samplers that change what a causal model writes, and that decoders of blanks do
not have.
"""
WITHOUT_EFFECT = (None, 0, 1, 1.0)
"""Values of these settings that change nothing."""


class Blanks(NamedTuple):
    """A text to decode, the places that are filled, and how."""

    ids: tuple[int, ...]
    sites: tuple[int, ...]
    temperature: float = 0.0
    seed: int = 0
    until: tuple[str, ...] = ()


def blanks_of(model: MaskedLM, context: str, generation: Mapping[str, Any]) -> Blanks:
    """The text that a decoder fills: the context with its own blanks, or with `max_gen_toks`
    blanks after it. Where these leave too little room, the context loses its left.

    generation   settings of the task: max_gen_toks, do_sample, temperature, seed, until
    """
    temperature = float(generation["temperature"]) if generation["do_sample"] else 0.0
    if temperature:
        _refuse_unread(generation)
    words = model.words
    limit = model.max_length
    before, after = words.around()
    inside = words.encode(context)[len(before) :] if context.strip() else after
    inside = inside[: len(inside) - len(after)]
    if words.mask_id not in inside:
        count = generation["max_gen_toks"]
        if limit is not None:
            room = limit - len(before) - len(after) - count
            if room < 0:
                raise InputError(
                    f"the task asks for max_gen_toks={count} tokens and the model takes {limit}:"
                    " give --gen_kwargs max_gen_toks=N"
                )
            inside = inside[max(0, len(inside) - room) :]
        inside = [*inside, *[words.mask_id] * count]
    ids = [*before, *inside, *after]
    if limit is not None and len(ids) > limit:
        raise InputError(
            f"the text {shortened(context)} has {len(ids)} tokens and the model takes {limit}:"
            " shorten it"
        )
    return Blanks(
        ids=tuple(ids),
        sites=tuple(t for t, token in enumerate(ids) if token == words.mask_id),
        temperature=temperature,
        seed=int(generation.get("seed", 0)),
        until=tuple(generation["until"]),
    )


def _refuse_unread(generation: Mapping[str, Any]) -> None:
    """Refuse settings that would change what is sampled, and do not."""
    for name in UNREAD:
        value = generation.get(name)
        if value not in WITHOUT_EFFECT:
            raise InputError(
                f"the task samples with {name}={value}, which decoders of blanks do not have: give"
                f" --gen_kwargs do_sample=False, or {name}=1"
            )


def written_text(model: MaskedLM, blanks: Blanks, tokens: Sequence[int]) -> str:
    """The text of the tokens at the blanks, up to the first of `until`."""
    words = model.words
    first, last = blanks.sites[0], blanks.sites[-1]
    filled = list(blanks.ids)
    for site, token in zip(blanks.sites, tokens, strict=True):
        filled[site] = token
    text_before = words.text(filled[:first])
    text_with = words.text(filled[: last + 1])
    adjacent = last - first + 1 == len(blanks.sites)
    if adjacent and text_with.startswith(text_before):
        text = text_with[len(text_before) :]  # with the spaces that tokens have beside each other
    else:
        text = words.text(tokens)
    for stop in blanks.until:
        if stop:
            text = text.split(stop)[0]
    return text.strip()


class Writer:
    """A decoder that fills blanks. Equal texts are decoded once.

    number   of the decoder's passes, or its sets; None: one per blank, or by the decoder's bound
    """

    def __init__(self, model: MaskedLM, decoder: Decoder, number: int | None) -> None:
        self.model = model
        self.decoder = decoder
        self.number = number
        self._written: dict[Blanks, tuple[int, ...]] = {}

    def write(self, texts: Sequence[Blanks]) -> list[tuple[int, ...]]:
        """The tokens that the decoder puts at the sites of each text."""
        if len(self._written) > MOST_WRITTEN:
            self._written.clear()
        groups: dict[Hashable, list[Blanks]] = {}  # texts that one call can decode
        for blanks in dict.fromkeys(texts):
            if blanks not in self._written:
                alike = (len(blanks.ids), blanks.sites, blanks.temperature, blanks.seed)
                groups.setdefault(alike, []).append(blanks)
        for group in groups.values():
            at_once = logit_rows(self.model, len(group[0].sites), GPU_LOGITS)
            for start in range(0, len(group), at_once):
                part = group[start : start + at_once]
                self._written.update(zip(part, self._decoded(part), strict=True))
        return [self._written[blanks] for blanks in texts]

    def _decoded(self, alike: Sequence[Blanks]) -> list[tuple[int, ...]]:
        """The tokens of texts of one length, with blanks at the same sites. Texts that are
        longer than the model takes have none.
        """
        first = alike[0]
        limit = self.model.max_length
        if limit is not None and len(first.ids) > limit:
            return [()] * len(alike)
        sites = list(first.sites)
        fixed = [t for t in range(len(first.ids)) if t not in set(sites)]
        target = Target(self.model, first.ids, given=fixed)
        number = self.number
        if number is None and not self.decoder.limited_by:
            number = len(sites)
        changes: dict[str, Any] = {self.decoder.parts: number, "temperature": first.temperature}
        decoder = replace(self.decoder, **changes)
        # the number of a text's random stream: a hash that is the same in every process
        numbers = [crc32(repr(blanks.ids).encode()) for blanks in alike]
        rng = ChainStreams(first.seed, numbers, self.model.device).of(0, 0)
        texts = torch.tensor([blanks.ids for blanks in alike], device=self.model.device)
        state, _ = decode(decoder.on(target, Passes(self.model)), len(alike), rng, texts)
        return [tuple(tokens) for tokens in state.ids[:, sites].tolist()]
