"""Any rows, one position of each predicted, or a few: what Markov chains over texts and decoders ask for.

The last layer is needed at that position only, so its query, output projection and feed-forward run on one token per row and
its keys and values are never formed (`substitution`, 2); the head runs on one position per row. With L layers and T tokens a row
this leaves about L - 1 of the L layers, whichever tokens the rows hold.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.encoder.fused_linear import linear_plus
from unmask.models.encoder.post_norm_encoder import PostNormEncoder
from unmask.models.encoder.substitution import after_attention, attend, attend_from_one, whole_layer


def hidden_at_one(encoder: PostNormEncoder, ids: Int[Tensor, "n T"], positions: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
    """The encoder's last hidden state at one position of each row."""
    *whole, last = encoder.layers
    states, seen = encoder.embed(ids, range(ids.shape[1])), encoder.seen(ids)
    for layer in whole:
        states = whole_layer(layer, states, encoder.heads, seen)
    here = states[torch.arange(len(ids), device=ids.device), positions]
    return after_attention(last, here, attend_from_one(last, states, here, encoder.heads, seen))


def hidden_at(encoder: PostNormEncoder, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p d"]:
    """The encoder's last hidden states at some positions of each row; the last feed-forward runs there only."""
    *whole, last = encoder.layers
    states, seen = encoder.embed(ids, range(ids.shape[1])), encoder.seen(ids)
    for layer in whole:
        states = whole_layer(layer, states, encoder.heads, seen)
    queries, keys, values = (linear_plus(part, states) for part in (last.query, last.key, last.value))
    mixed = attend(queries, keys, values, encoder.heads, seen)
    where = positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])
    return after_attention(last, states.gather(1, where), mixed.gather(1, where))
