"""One text, a few tokens vary, one position is predicted: the inner loop of a pair table.

Every row is the same text except for the tokens at `vary`, and only the logits at `predict` are asked for. Three things follow,
none of which changes the answer:

1.  First layer: queries, keys and values are functions of one token each. Those of the tokens that stay are computed
    once for all rows; each row adds those of its own few tokens. With token dropout they depend on how many of these are masks
    too, so there is one set of them for each number.
2.  Last layer: only position `predict` is needed, so it runs at one token per row (`Layer.at_one`).
3.  Head: one position per row.

The layers between run whole. With 6 layers of width d and 16 tokens this leaves 911 of the 1,152 d^2 multiplications
that the encoder costs, and one sixteenth of the head's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.encoder.encoder import Encoder, Masks
from unmask.models.encoder.layers import Stream


class Substitution:
    """Last hidden states at `predict` for rows of values at `vary` of the text `ids`, everything shared computed once."""

    def __init__(self, encoder: Encoder, ids: Int[Tensor, " T"], vary: Sequence[int], predict: int) -> None:
        self.encoder, self.vary, self.predict = encoder, list(vary), predict
        self.length, sets = len(ids), 1 if encoder.dropped is None else len(self.vary) + 1
        kept = torch.ones(self.length, dtype=torch.bool, device=ids.device)
        kept[self.vary] = False
        self.mask = -1 if encoder.dropped is None else encoder.dropped
        masks = Masks(((ids == self.mask) & kept).sum() + torch.arange(sets, device=ids.device), self.length)
        self.masks = masks.count[0]
        self.embedded = encoder.embed(ids.repeat(sets, 1), range(self.length), masks)
        self.projected = encoder.layers[0].project(self.embedded.normed)
        self.turns = encoder.turns(self.length, self.embedded.total)

    def hidden(self, values: Int[Tensor, "n v"]) -> Float[Tensor, "n d"]:
        """The encoder's last hidden state at `predict`, a row of `values` each."""
        first, *between, last = self.encoder.layers
        own_masks = (values == self.mask).sum(1)
        own = self.encoder.embed(values, self.vary, Masks(self.masks + own_masks, self.length))
        places = self._places(own_masks)
        total = filled(self.embedded.total, own.total, places)
        query, key, value = (filled(x, y, places) for x, y in zip(self.projected, first.project(own.normed), strict=True))
        mixed = first.attend(query, key, value, turn=self.turns[first.rotary])
        stream = first.after_attention(Stream(total, total), mixed)
        for layer in between:
            stream = layer(stream, turn=self.turns[layer.rotary])
        places = torch.full((len(values),), self.predict, device=values.device)
        return last.at_one(stream, places, turn=self.turns[last.rotary])

    def _places(self, own_masks: Int[Tensor, " n"]) -> Int[Tensor, "n T"]:
        """Where the vectors of each row's tokens are in the list of the shared ones and, after them, of each row's own."""
        rows, varied, device = len(own_masks), len(self.vary), own_masks.device
        places = torch.arange(self.length, device=device).repeat(rows, 1)
        if self.encoder.dropped is not None:
            places = places + own_masks[:, None] * self.length
        shared = self.embedded.total.shape[:2].numel()
        places[:, self.vary] = torch.arange(shared, shared + rows * varied, device=device).reshape(rows, varied)
        return places


def filled(shared: Float[Tensor, "s T d"], own: Float[Tensor, "n v d"], places: Int[Tensor, "n T"]) -> Float[Tensor, "n T d"]:
    """The vectors at `places` of both, in one pass over what is written."""
    vectors = torch.cat([shared.flatten(0, 1), own.flatten(0, 1)])
    return vectors.index_select(0, places.flatten()).unflatten(0, places.shape)
