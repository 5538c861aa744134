"""Encoders that run fast: the passes that compute only what is needed.

Embedding   e_j = P N(c word[x_j] + position[j + offset] + type[0])
            (P: ELECTRA's projection, else 1)
Layers      see `layers`

c is 1, except in networks with token dropout (ESM): there a mask's embedding is 0 and c = 0.88
/ (1 - share of masks in a text). An `Encoder` holds the network's own modules, never copies of
their weights. `architectures` finds them in a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unmask.models.encoder.layers import Layer, Rotary, Stream, Turn

KEPT_IN_TRAINING = 1 - 0.15 * 0.8
"""The share of tokens that token dropout kept in training, the same for all its models."""
Turns = dict[Rotary | None, Turn | None]
"""The rotation of queries and keys at every position of a text, by kind of layer; None without
rotary positions.
"""


@dataclass(frozen=True)
class Encoder:
    """Embedding tables and layers.

    first_norm       what the first layer reads through, if norms are before
    position_offset  added to each position before the table is read
    pad_id           the token that shifts the positions after it (RoBERTa counts positions over
                     all other tokens), if any
    dropped          the mask of a network with token dropout, if it is one
    unseen           the token that no position attends to, if any
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

    def embed(
        self,
        ids: Int[Tensor, "n t"],
        positions: Int[Tensor, " t"],
        masked: Float[Tensor, " n"] | None = None,
    ) -> Stream:
        """The first layer's input for tokens `ids` at `positions`; `masked`: the share of masks
        in each text [that in `ids`].
        """
        states: Tensor = self.word(ids)
        if self.dropped is not None:
            states = self._with_token_dropout(states, ids == self.dropped, masked)
        fixed = self._of_positions(positions)
        if fixed is not None:
            states = states + fixed
        if self.embedding_norm is not None:
            states = self.embedding_norm(states)
        if self.projection is not None:
            states = self.projection(states)
        normed = states if self.first_norm is None else self.first_norm(states)
        return Stream(states, normed)

    def _with_token_dropout(
        self,
        states: Float[Tensor, "n t d"],
        is_mask: Bool[Tensor, "n t"],
        masked: Float[Tensor, " n"] | None,
    ) -> Float[Tensor, "n t d"]:
        """c times the embeddings, with 0 for masks."""
        if masked is None:
            masked = is_mask.sum(1).float() / is_mask.shape[1]
        states = states.masked_fill(is_mask.unsqueeze(-1), 0.0)
        return (states * KEPT_IN_TRAINING / (1 - masked)[:, None, None]).to(states.dtype)

    def _of_positions(self, positions: Int[Tensor, " t"]) -> Float[Tensor, "... d"] | None:
        """What is added to the embedding of any token: position[j + offset] + type[0], as far
        as the network has them.
        """
        first_type = None if self.token_type is None else self.token_type.weight[0]
        if self.position is None:
            return first_type
        fixed: Tensor = self.position(positions + self.position_offset)
        return fixed if first_type is None else fixed + first_type

    def has_padding(self, ids: Tensor) -> bool:
        """Whether `ids` have a padding token that shifts positions."""
        return self.pad_id is not None and bool((ids == self.pad_id).any())

    def turns(self, length: int, like: Tensor) -> Turns:
        """The rotations in a text of `length` tokens, in the number format of `like`."""
        positions = torch.arange(length, device=like.device)
        turns: Turns = {}
        for kind in {layer.rotary for layer in self.layers}:
            turns[kind] = None if kind is None else kind.turn(positions, like.dtype)
        return turns

    def hidden_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` of each row."""
        length = ids.shape[1]
        stream = self.embed(ids, torch.arange(length, device=ids.device))
        return self.finish(
            stream,
            self.layers,
            positions,
            turns=self.turns(length, stream.total),
            seen=None if self.unseen is None else ids != self.unseen,
        )

    def finish(
        self,
        stream: Stream,
        layers: Sequence[Layer],
        positions: Int[Tensor, "n p"],
        turns: Turns,
        seen: Bool[Tensor, "n T"] | None = None,
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` after the remaining `layers`.

        The last layer runs at those positions only. At one position its values are never
        formed, nor, without rotary positions, its keys (`Layer.at_one`), which leaves about L -
        1 of the L layers.
        """
        *before, last = layers
        for layer in before:
            stream = layer(stream, seen, turns[layer.rotary])
        turn = turns[last.rotary]
        if positions.shape[1] > 1:
            return last.at(stream, positions, seen, turn)
        return last.at_one(stream, positions[:, 0], seen, turn).unsqueeze(1)
