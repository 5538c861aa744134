"""Encoders that run fast: the passes that compute only what is needed.

Embedding   e_j = P N(c word[x_j] + position[j + offset] + type[0])
            (P: ELECTRA's projection, else 1)
Layers      see `layers`

N is a norm. The factor c is 1, except in networks with token dropout (ESM). These set the
embedding of a mask to 0, and c is the share of tokens kept in training, 0.88, over the share kept
in the text, 1 - masks / tokens.

An `Encoder` holds the network's own modules, never copies of their weights. `architectures`
finds them in a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unmask.models.encoder.layers import Layer, Rotary, Stream, Turn

MASKED_IN_TRAINING = 0.15 * 0.8
"""Share of masks in the training texts of all networks with token dropout: 15 % of the tokens
were chosen, and 80 % of these were masked. Transformers has the same constant.
"""
KEPT_IN_TRAINING = 1 - MASKED_IN_TRAINING
Turns = dict[Rotary | None, Turn | None]
"""The turn of every position of a text, for each `Rotary` among the layers; None for layers
without rotary positions.
"""


@dataclass(frozen=True)
class Encoder:
    """Embedding tables and layers.

    first_norm       the norm between the embedding and the first layer, if norms are before
    position_offset  added to each position before the table is read
    pad_id           the padding token, if it has no position of its own and so shifts those of
                     the tokens after it, as in RoBERTa
    dropped          the mask token of a network with token dropout; None for any other network
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
        """The first layer's input for tokens `ids` at `positions`.

        `masked` is the share of masks in each whole text, for token dropout; by default, that
        among `ids`.
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
        kept = (1 - masked)[:, None, None]  # (n, 1, 1), in float32
        scaled = states * KEPT_IN_TRAINING / kept
        return scaled.to(states.dtype)

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
        """The turns of a text of `length` tokens, in the number format of `like`."""
        positions = torch.arange(length, device=like.device)
        turns: Turns = {}
        for rotary in {layer.rotary for layer in self.layers}:
            turns[rotary] = None if rotary is None else rotary.turn(positions, like.dtype)
        return turns

    def hidden_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` of each row."""
        length = ids.shape[1]
        stream = self.embed(ids, torch.arange(length, device=ids.device))
        turns = self.turns(length, stream.total)
        seen = None if self.unseen is None else ids != self.unseen
        return self.finish(stream, self.layers, positions, turns=turns, seen=seen)

    def finish(
        self,
        stream: Stream,
        layers: Sequence[Layer],
        positions: Int[Tensor, "n p"],
        turns: Turns,
        seen: Bool[Tensor, "n T"] | None = None,
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` after the remaining `layers`.

        The last layer runs at those positions only. If there is only one per row, the layer
        forms no values, and no keys unless it has rotary positions (`Layer.at_one`). L layers
        then cost about as much as L - 1.
        """
        *before, last = layers
        for layer in before:
            stream = layer(stream, seen, turns[layer.rotary])
        turn = turns[last.rotary]
        if positions.shape[1] > 1:
            return last.at(stream, positions, seen, turn)
        return last.at_one(stream, positions[:, 0], seen, turn).unsqueeze(1)
