"""Causal models of pairs, and their translations: greedy, or by beam search.

Such a model reads the source once and then goes token by token, with a cache of keys and values:

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)          position W + t sees the whole source, and the targets up to itself

Its network is our own BERT; training computes the same in one pass over a packed row, this step by step. Beam search:

    keep the b likeliest beginnings of each source's translation;  a finished one stays as it is;
    when all are finished, or as long as the model allows, take the one with the highest log p / tokens

A beam of 1 is greedy decoding. The end token counts as a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM, KeyCache
from unmask.models.loading import read_own_bert, resolve_device, resolve_dtype
from unmask.models.source import Source
from unmask.models.text.vocabulary import Spelling
from unmask.runs.fingerprint import fingerprint
from unmask.translation.pairs import PairLayout, read_layout
from unmask.translation.recipe import PairTranslator

ROWS = {"cuda": 4096, "cpu": 256}
"""Beginnings that are read side by side, by device."""


class Translation(NamedTuple):
    """Tokens of a translation, its energy (of a masked model), its log-probability (of a causal one with its end), its passes."""

    tokens: tuple[int, ...]
    energy: float | None
    log_prob: float
    passes: int


class CausalPairs(PairTranslator):
    """Next-token log-probabilities of translations; special tokens except the end token are excluded."""

    def __init__(self, network: BertMaskedLM, layout: PairLayout, special: Int[Tensor, " s"]) -> None:
        self.network, self.layout = network.eval(), layout
        self.name, self.spelling = "", cast(Spelling, None)
        network.bert.unseen = layout.pad
        self.device = next(network.parameters()).device
        excluded = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        excluded[special] = True
        excluded[layout.end] = False
        self.excluded = excluded.to(self.device)

    @classmethod
    def load(cls, folder: Path, device: str, dtype: str) -> CausalPairs:
        """Read a folder of `unmask train --parallel SOURCE TARGET --objective causal`."""
        spelling = Spelling.read(folder)
        layout, objective, _ = read_layout(folder, spelling.core.get_vocab())
        if objective != "causal":
            raise InputError(f"model {str(folder)!r} is a masked model: give one that was trained with --objective causal")
        network = read_own_bert(Source(str(folder)), resolve_dtype(dtype), decoder=True)
        if network is None:
            raise InputError(f"the weights in {str(folder)!r} are not those of its config.json: train the model again")
        special = [i for i, token in spelling.core.get_added_tokens_decoder().items() if token.special]
        model = cls(network.to(resolve_device(device)), layout, torch.tensor(special))
        model.name, model.spelling = str(folder), spelling
        return model

    @property
    def fingerprint(self) -> str:
        """Of the weights."""
        return fingerprint(self.network.state_dict())

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[KeyCache, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        cache = KeyCache()
        states = self.network.bert(rooms, cache=cache)
        last = (rooms != self.layout.pad).sum(1) - 1
        return cache, self._log_probs(states[torch.arange(len(rooms), device=self.device), last])

    @torch.no_grad()
    def step(self, cache: KeyCache, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of the one after it."""
        return self._log_probs(self.network.bert(tokens.unsqueeze(1), self.layout.source_length + place, cache)[:, 0])

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        return self.network.head(states).float().log_softmax(-1).masked_fill(self.excluded, -torch.inf)


def rows_at_once(device: str, beam: int) -> int:
    """Sources that are searched together."""
    return max(1, ROWS[device] // beam)


def beam_search(model: CausalPairs, sources: Sequence[Sequence[int]], beam: int = 1) -> list[Translation]:
    """One translation per source, of at most as many tokens as the model takes."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    rows = rows_at_once(model.device.type, beam)
    translations: dict[int, Translation] = {}
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        rooms = torch.tensor([model.layout.room(sources[i]) for i in some], device=model.device)
        translations.update(zip(some, _search(model, rooms, beam), strict=True))
    return [translations[i] for i in range(len(sources))]


def _search(model: CausalPairs, rooms: Int[Tensor, "n W"], width: int) -> list[Translation]:
    n, end, longest = len(rooms), model.layout.end, model.layout.longest_target
    cache, log_probs = model.read(rooms)
    spare = torch.full((n, max(0, width - log_probs.shape[1])), -torch.inf, device=model.device)
    scores, tokens = torch.cat([log_probs, spare], 1).topk(width)
    tokens = tokens.clamp(max=log_probs.shape[1] - 1)
    cache.take(torch.arange(n, device=model.device).repeat_interleave(width))
    texts, finished = tokens.unsqueeze(-1), (tokens == end) | scores.isinf()
    lengths = torch.ones_like(tokens)
    for place in range(longest):
        if bool(finished.all()):
            break
        following = model.step(cache, texts[..., -1].flatten(), place).view(n, width, -1)
        if place + 1 == longest:
            following = _only(following, end)
        following = torch.where(finished.unsqueeze(-1), _only(torch.zeros_like(following), end), following)
        scores, flat = (scores.unsqueeze(-1) + following).flatten(1).topk(width)
        before, tokens = flat // following.shape[-1], flat % following.shape[-1]
        texts = torch.cat([texts.gather(1, before.unsqueeze(-1).expand(-1, -1, texts.shape[-1])), tokens.unsqueeze(-1)], -1)
        was_finished = finished.gather(1, before)
        lengths = lengths.gather(1, before) + ~was_finished
        finished = was_finished | (tokens == end) | scores.isinf()
        cache.take((torch.arange(n, device=model.device).unsqueeze(1) * width + before).flatten())
    best = (scores / lengths).argmax(1, keepdim=True)
    chosen = texts.gather(1, best.unsqueeze(-1).expand(-1, -1, texts.shape[-1]))[:, 0].tolist()
    log_prob = scores.gather(1, best)[:, 0].tolist()
    return [
        Translation(tuple(row[: row.index(end)] if end in row else row), None, score, texts.shape[-1] * width)
        for row, score in zip(chosen, log_prob, strict=True)
    ]


def _only(log_probs: Float[Tensor, "n b V"], token: int) -> Float[Tensor, "n b V"]:
    """The same with every other token ruled out."""
    only = torch.full_like(log_probs, -torch.inf)
    only[..., token] = log_probs[..., token]
    return only
