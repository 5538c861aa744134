"""One text, a few tokens vary, one position is predicted: the inner loop of a pair table.

Every row is the same text except for the tokens at `vary`, and only the logits at `predict` are asked for. Three things follow,
none of which changes the answer:

1.  First layer: queries, keys and values are functions of one token each. Those of the tokens that stay are computed
    once for all rows; each row adds those of its own few tokens.
2.  Last layer: only position `predict` is needed, so it runs at one token per row, without keys and values (`Layer.at_one`).
3.  Head: one position per row.

The layers between run whole. With 6 layers of width d and 16 tokens this leaves 911 of the 1,152 d^2 multiplications
that the encoder costs, and one sixteenth of the head's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.encoder.encoder import Encoder


class Substitution:
    """Last hidden states at `predict` for rows of values at `vary` of the text `ids`, everything shared computed once."""

    def __init__(self, encoder: Encoder, ids: Int[Tensor, " T"], vary: Sequence[int], predict: int) -> None:
        self.encoder, self.vary, self.predict = encoder, list(vary), predict
        first = encoder.layers[0]
        self.embedded = encoder.embed(ids.unsqueeze(0), range(len(ids)))
        self.projected = [linear(self.embedded) for linear in (first.query, first.key, first.value)]

    def hidden(self, values: Int[Tensor, "n v"]) -> Float[Tensor, "n d"]:
        """The encoder's last hidden state at `predict`, a row of `values` each."""
        first, *between, last = self.encoder.layers
        own, places = self.encoder.embed(values, self.vary), self._places(len(values))
        states = filled(self.embedded, own, places)
        queries, keys, keyed_values = (
            filled(shared, linear(own), places)
            for shared, linear in zip(self.projected, (first.query, first.key, first.value), strict=True)
        )
        states = first.after_attention(states, first.attend(queries, keys, keyed_values))
        for layer in between:
            states = layer(states)
        return last.at_one(states, states[:, self.predict])

    def _places(self, rows: int) -> Int[Tensor, "n T"]:
        """Where the vectors of each row's tokens are in the list of the shared ones and, after them, of each row's own."""
        tokens, varied, device = self.embedded.shape[1], len(self.vary), self.embedded.device
        places = torch.arange(tokens, device=device).repeat(rows, 1)
        places[:, self.vary] = torch.arange(tokens, tokens + rows * varied, device=device).reshape(rows, varied)
        return places


def filled(shared: Float[Tensor, "1 T d"], own: Float[Tensor, "n v d"], places: Int[Tensor, "n T"]) -> Float[Tensor, "n T d"]:
    """The vectors at `places` of both, in one pass over what is written."""
    vectors = torch.cat([shared.flatten(0, 1), own.flatten(0, 1)])
    return vectors.index_select(0, places.flatten()).unflatten(0, places.shape)
