"""The compatibility regulariser: a penalty on pairs of conditionals that no joint distribution has.

The two unary conditionals of a pair of positions (a, b), the rest of the text shown, come from one joint if and only if, for all
x, x', y, y', the log cross-ratios agree:

    log [q_a(x|y) q_a(x'|y') / (q_a(x'|y) q_a(x|y'))]  =  log [q_b(y|x) q_b(y'|x') / (q_b(y'|x) q_b(y|x'))].

Normalisers cancel, so logits suffice. In training, every segment of some packed rows gives one random pair. Its tokens are x, y;
x', y' are drawn from the model itself with both masked, so that the values compete. The penalty is the mean squared gap over
segments. It takes five passes over the rows, one of them without gradient; segments do not see each other, so all segments of a
row are varied at once. Only the logits of the drawn tokens are computed, never a whole vocabulary's.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.training.encoder import PackedBert, Slots
from unmask.training.masking import ExactlyK, noise
from unmask.training.masking import capacity as masked_capacity
from unmask.training.packing import PackedText, Vocabulary


def first_rows(text: PackedText, rows: int) -> PackedText:
    """The layout of the first rows."""
    return PackedText(**{f.name: getattr(text, f.name)[:rows] for f in dataclasses.fields(text)})


def repeated(text: PackedText, times: int) -> PackedText:
    """The same rows `times` times."""
    return PackedText(**{f.name: torch.cat([getattr(text, f.name)] * times) for f in dataclasses.fields(text)})


class PositionPairs(NamedTuple):
    """One pair of positions (flat indices a, b) of each of some segments, their tokens (x, y), and others drawn (x2, y2).

    The number of pairs is static; `filled` marks the real ones.
    """

    a: Int[Tensor, " m"]
    b: Int[Tensor, " m"]
    filled: Bool[Tensor, " m"]
    x: Int[Tensor, " m"]
    y: Int[Tensor, " m"]
    x2: Int[Tensor, " m"]
    y2: Int[Tensor, " m"]


def draw_pairs(bert: PackedBert, text: PackedText, vocabulary: Vocabulary, capacity: int, generator: Generator) -> PositionPairs:
    """Pairs from at most `capacity` segments; the other values are drawn from the model's own marginals with both masked."""
    rank = text.rank(noise(text, generator), text.maskable)
    enough = text.maskable & (text.count(text.maskable) > 1)
    at_a, at_b = enough & (rank == 0), enough & (rank == 1)
    length = text.ids.shape[1]
    a, filled, _ = Slots.gather(at_a, capacity)
    b = a // length * length + (text.same & at_b.unsqueeze(1)).to(torch.uint8).argmax(2).flatten()[a]
    x, y = text.ids.flatten()[a], text.ids.flatten()[b]
    mask = torch.full_like(x, vocabulary.mask)
    with torch.no_grad():
        hidden = bert.hidden(_shown(text, PositionPairs(a, b, filled, x, y, x, y), mask, mask), text)
        x2, y2 = (_draw(bert.logits(hidden[p]), vocabulary, generator).to(x.dtype) for p in (a, b))
    return PositionPairs(a, b, filled, x, y, x2, y2)


def penalty(bert: PackedBert, text: PackedText, vocabulary: Vocabulary, pairs: PositionPairs) -> Float[Tensor, ""]:
    """Mean squared cross-ratio gap of the pairs."""
    a, b, filled, x, y, x2, y2 = pairs
    mask, tokens = torch.full_like(x, vocabulary.mask), text.ids.numel()
    seen = [_shown(text, pairs, *values) for values in ((mask, y), (mask, y2), (x, mask), (x2, mask))]
    hidden = bert.hidden(torch.cat(seen), repeated(text, 4))
    at = torch.cat([a, a + tokens, b + 2 * tokens, b + 3 * tokens])
    values = torch.stack([torch.cat([x, x, y, y]), torch.cat([x2, x2, y2, y2])], 1)
    up, down = bert.token_logits(hidden[at], values).unbind(1)
    of_y, of_y2, of_x, of_x2 = (up - down).chunk(4)
    gap = (of_y - of_y2) - (of_x - of_x2)
    return (gap.square() * filled).sum() / filled.sum().clamp(min=1)


def _shown(text: PackedText, pairs: PositionPairs, value_a: Int[Tensor, " m"], value_b: Int[Tensor, " m"]) -> Int[Tensor, "R L"]:
    """The rows with these values at the pairs' positions."""
    tokens = text.ids.numel()
    write_a, write_b = (torch.where(pairs.filled, place, tokens) for place in (pairs.a, pairs.b))
    out = torch.cat([text.ids.flatten(), text.ids.new_zeros(1)])
    return out.index_put((write_a,), value_a).index_put((write_b,), value_b)[:-1].view_as(text.ids)


def pair_capacity(rows: int, length: int, tokens_per_segment: float) -> int:
    """A static upper bound on the segments in `rows` packed rows: the capacity of a scheme that masks one token each."""
    return masked_capacity(ExactlyK(1), rows, length, tokens_per_segment)


def _draw(logits: Float[Tensor, "m V"], vocabulary: Vocabulary, generator: Generator) -> Int[Tensor, " m"]:
    probabilities = logits.float().masked_fill(vocabulary.special, -torch.inf).softmax(-1)
    return probabilities.multinomial(1, generator=generator).squeeze(1)
