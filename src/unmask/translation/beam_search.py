"""Causal models of pairs, and their translations: greedy, or by beam search.

Such a model reads the source once and then goes token by token, with a cache of keys and values:

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)          position W + t sees the whole source, and the targets up to itself

Its network is our own BERT; training computes the same in one pass over a packed row, this step by step. Beam search:

    keep the b likeliest beginnings of each source's translation;  a finished one stays as it is;
    when all are finished, or as long as the model allows, take the one with the highest log p / tokens^penalty

A beam of 1 is greedy decoding. The end token counts as a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.encoder.layers import Stream
from unmask.models.loading import read_own_bert
from unmask.models.source import Source
from unmask.runs.progress import Progress
from unmask.translation.pairs import PairLayout, read_layout

ROWS = {"cuda": 4096, "cpu": 256}
"""Beginnings that are read side by side, by device."""


@dataclass
class Read:
    """The cache of n pairs: keys and values of each layer, and which places may be attended to."""

    keys: list[Tensor]
    values: list[Tensor]
    seen: Bool[Tensor, "n L"]

    def take(self, rows: Int[Tensor, " m"]) -> Read:
        """The cache of some rows, which may be named several times."""
        return Read([k[rows] for k in self.keys], [v[rows] for v in self.values], self.seen[rows])


class CausalPairs:
    """Next-token log-probabilities of translations; special tokens except the end token are excluded."""

    def __init__(self, network: BertMaskedLM, layout: PairLayout, special: Int[Tensor, " s"]) -> None:
        self.network, self.layout = network.eval(), layout
        self.device = next(network.parameters()).device
        ruled_out = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        ruled_out[special] = True
        ruled_out[layout.end] = False
        self.ruled_out = ruled_out.to(self.device)

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[Read, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        bert = self.network.bert
        states, there = bert.embeddings(rooms), rooms != self.layout.pad
        keys, values = [], []
        for layer in bert.layers:
            query, key, value = layer.project(states)
            states = layer.after_attention(Stream(states, states), layer.attend(query, key, value, there)).normed
            keys.append(key)
            values.append(value)
        last = there.sum(1) - 1
        first = self._log_probs(states[torch.arange(len(rooms), device=self.device), last])
        return Read(keys, values, there), first

    @torch.no_grad()
    def step(self, read: Read, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of the one after it."""
        bert = self.network.bert
        states = bert.embeddings(tokens.unsqueeze(1), self.layout.source_length + place)
        read.seen = torch.cat([read.seen, read.seen.new_ones(len(tokens), 1)], 1)
        for number, layer in enumerate(bert.layers):
            query, key, value = layer.project(states)
            read.keys[number] = torch.cat([read.keys[number], key], 1)
            read.values[number] = torch.cat([read.values[number], value], 1)
            mixed = layer.attend(query, read.keys[number], read.values[number], read.seen)
            states = layer.after_attention(Stream(states, states), mixed).normed
        return self._log_probs(states[:, 0])

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        return self.network.head(states).float().log_softmax(-1).masked_fill(self.ruled_out, -torch.inf)


def load_causal_pairs(folder: Path, tokenizer: Tokenizer, device: torch.device, dtype: torch.dtype) -> CausalPairs:
    """The causal model of pairs of a folder that `unmask train --parallel SOURCE TARGET --objective causal` wrote."""
    layout, objective, _ = read_layout(folder, tokenizer.get_vocab())
    if objective != "causal":
        raise InputError(f"model {str(folder)!r} is a masked model: give one that was trained with --objective causal")
    network = read_own_bert(Source(str(folder)), dtype, decoder=True)
    if network is None:
        raise InputError(f"the weights in {str(folder)!r} are not those of its config.json: train the model again")
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    return CausalPairs(network.to(device), layout, torch.tensor(special))


class Translated(NamedTuple):
    """The tokens of a translation, its log-probability with the end token, and how often the network was asked."""

    tokens: list[int]
    log_prob: float
    passes: int


def rows_at_once(device: str, beam: int) -> int:
    """Sources that are searched together."""
    return max(1, ROWS[device] // beam)


def beam_search(
    model: CausalPairs,
    sources: Sequence[Sequence[int]],
    beam: int = 1,
    penalty: float = 1.0,
    most: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[Translated]:
    """One translation per source, of at most `most` tokens each (by default as many as the model takes)."""
    longest = model.layout.longest_target
    limits = [longest] * len(sources) if most is None else [min(longest, limit) for limit in most]
    order = sorted(range(len(sources)), key=lambda i: (limits[i], len(sources[i])))
    rows = rows_at_once(model.device.type, beam)
    out: dict[int, Translated] = {}
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        rooms = torch.tensor([model.layout.room(sources[i]) for i in some], device=model.device)
        found = _search(model, rooms, beam, penalty, torch.tensor([limits[i] for i in some], device=model.device))
        out.update(zip(some, found, strict=True))
        if progress:
            progress(len(out), len(sources), "translated")
    return [out[i] for i in range(len(sources))]


def _search(
    model: CausalPairs, rooms: Int[Tensor, "n W"], width: int, penalty: float, most: Int[Tensor, " n"]
) -> list[Translated]:
    n, end = len(rooms), model.layout.end
    read, log_probs = model.read(rooms)
    spare = torch.full((n, max(0, width - log_probs.shape[1])), -torch.inf, device=model.device)
    scores, tokens = torch.cat([log_probs, spare], 1).topk(width)
    tokens = tokens.clamp(max=log_probs.shape[1] - 1)
    read = read.take(torch.arange(n, device=model.device).repeat_interleave(width))
    texts, finished = tokens.unsqueeze(-1), (tokens == end) | scores.isinf()
    lengths = torch.ones_like(tokens)
    for place in range(int(most.max())):
        if bool(finished.all()):
            break
        following = model.step(read, texts[..., -1].flatten(), place).view(n, width, -1)
        if bool((over := most <= place + 1).any()):
            following = torch.where(over[:, None, None], _only(following, end), following)
        following = torch.where(finished.unsqueeze(-1), _only(torch.zeros_like(following), end), following)
        scores, flat = (scores.unsqueeze(-1) + following).flatten(1).topk(width)
        before, tokens = flat // following.shape[-1], flat % following.shape[-1]
        texts = torch.cat([texts.gather(1, before.unsqueeze(-1).expand(-1, -1, texts.shape[-1])), tokens.unsqueeze(-1)], -1)
        was_finished = finished.gather(1, before)
        lengths = lengths.gather(1, before) + ~was_finished
        finished = was_finished | (tokens == end) | scores.isinf()
        read = read.take((torch.arange(n, device=model.device).unsqueeze(1) * width + before).flatten())
    best = (scores / lengths**penalty).argmax(1, keepdim=True)
    chosen = texts.gather(1, best.unsqueeze(-1).expand(-1, -1, texts.shape[-1]))[:, 0].tolist()
    log_prob = scores.gather(1, best)[:, 0].tolist()
    return [
        Translated(row[: row.index(end)] if end in row else row, score, texts.shape[-1] * width)
        for row, score in zip(chosen, log_prob, strict=True)
    ]


def _only(log_probs: Float[Tensor, "n b V"], token: int) -> Float[Tensor, "n b V"]:
    """The same with every other token ruled out."""
    kept = torch.full_like(log_probs, -torch.inf)
    kept[..., token] = log_probs[..., token]
    return kept
