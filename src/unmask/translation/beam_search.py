"""Translations of a causal model of pairs: greedy, or by beam search.

    keep the b likeliest beginnings of each source's translation;  a finished one stays as it is;
    when all are finished, or as long as the model allows, take the one with the highest log p / tokens^penalty

A beam of 1 is greedy decoding. The end token counts as a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.runs.progress import Progress
from unmask.translation.pairs import CausalPairs

ROWS = {"cuda": 4096, "cpu": 256}
"""Beginnings that are read side by side, by device."""


class Translated(NamedTuple):
    """The tokens of a translation, its log-probability with the end token, and how often the network was asked."""

    tokens: list[int]
    log_prob: float
    passes: int


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
    rows = max(1, ROWS.get(model.device.type, ROWS["cpu"]) // beam)
    out: dict[int, Translated] = {}
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        rooms = torch.tensor([model.layout.room(sources[i]) for i in some], device=model.device)
        found = _search(model, rooms, beam, penalty, max(limits[i] for i in some))
        out.update(zip(some, found, strict=True))
        if progress:
            progress(len(out), len(sources), "translated")
    return [out[i] for i in range(len(sources))]


def _search(model: CausalPairs, rooms: Int[Tensor, "n W"], width: int, penalty: float, most: int) -> list[Translated]:
    n, end = len(rooms), model.layout.end
    read, log_probs = model.read(rooms)
    spare = torch.full((n, max(0, width - log_probs.shape[1])), -torch.inf, device=model.device)
    scores, tokens = torch.cat([log_probs, spare], 1).topk(width)
    tokens = tokens.clamp(max=log_probs.shape[1] - 1)
    read = read.take(torch.arange(n, device=model.device).repeat_interleave(width))
    texts, finished = tokens.unsqueeze(-1), (tokens == end) | scores.isinf()
    lengths = torch.ones_like(tokens)
    for place in range(most):
        if bool(finished.all()):
            break
        following = model.step(read, texts[..., -1].flatten(), place).view(n, width, -1)
        if place == most - 1:
            following = _only(following, end)
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
