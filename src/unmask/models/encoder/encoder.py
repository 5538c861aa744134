"""An encoder that a description names (`architectures`): embedding and layers.

Embedding   e_j = P N(c word[x_j] + position[j + offset] + type[0])          (P: ELECTRA's and ALBERT's projection, else 1)
Layers      see `layers`

c is 1, except in networks with token dropout (ESM): there a mask's embedding is 0 and c = 0.88 / (1 - share of masks in a text).
An `Encoder` holds the network's own modules, never copies of their weights, so that a network that is trained further stays in
step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.models.encoder.layers import Layer, Rotary, Stream, Turn

KEPT_IN_TRAINING = 1 - 0.15 * 0.8
"""The share of tokens that token dropout kept in training, the same for all its models."""
Turns = dict[Rotary | None, Turn | None]


@dataclass(frozen=True)
class Encoder:
    """Embedding tables and layers.

    `first_norm`: what the first layer reads through, if norms are before.
    `pad_id`: the token that shifts the positions after it (RoBERTa counts positions over all other tokens), if any.
    `dropped`: the mask of a network with token dropout, if it is one.
    `unseen`: the token that no position attends to, if any.
    """

    word: nn.Embedding
    position: nn.Embedding | None
    token_type: nn.Embedding | None
    embedding_norm: nn.Module | None
    projection: nn.Linear | None
    layers: tuple[Layer, ...]
    first_norm: nn.Module | None = None
    position_offset: int = 0
    pad_id: int | None = None
    dropped: int | None = None
    unseen: int | None = None

    def embed(self, ids: Int[Tensor, "n t"], positions: Int[Tensor, " t"], masked: Float[Tensor, " n"] | None = None) -> Stream:
        """The first layer's input for tokens `ids` at `positions` of texts; `masked`: the share of masks in each text, by default
        that in `ids`."""
        states: Tensor = self.word(ids)
        if self.dropped is not None:
            dropped = ids == self.dropped
            masked = dropped.sum(1).float() / ids.shape[1] if masked is None else masked
            states = states.masked_fill(dropped.unsqueeze(-1), 0.0)
            states = (states * KEPT_IN_TRAINING / (1 - masked)[:, None, None]).to(states.dtype)
        if self.position is not None:
            fixed = self.position(positions + self.position_offset)
            if self.token_type is not None:
                fixed = fixed + self.token_type.weight[0]
            states = states + fixed
        elif self.token_type is not None:
            states = states + self.token_type.weight[0]
        if self.embedding_norm is not None:
            states = self.embedding_norm(states)
        if self.projection is not None:
            states = self.projection(states)
        return Stream(states, states if self.first_norm is None else self.first_norm(states))

    def turns(self, length: int, like: Tensor) -> Turns:
        """What each kind of layer turns the queries and keys of a text by."""
        places = torch.arange(length, device=like.device)
        kinds = {layer.rotary for layer in self.layers}
        return {kind: None if kind is None else kind.turn(places, like.dtype) for kind in kinds}

    def hidden_at(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` of each row: what Markov chains over texts and decoders ask for.

        The last layer runs at those positions only. At one position its values are never formed, nor, without rotary positions,
        its keys (`Layer.at_one`), which leaves about L - 1 of the L layers.
        """
        *before, last = self.layers
        stream = self.embed(ids, torch.arange(ids.shape[1], device=ids.device))
        seen = None if self.unseen is None else ids != self.unseen
        turns = self.turns(ids.shape[1], stream.total)
        for layer in before:
            stream = layer(stream, seen, turns[layer.rotary])
        if positions.shape[1] > 1:
            return last.at(stream, positions, seen, turns[last.rotary])
        return last.at_one(stream, positions[:, 0], seen, turns[last.rotary]).unsqueeze(1)
