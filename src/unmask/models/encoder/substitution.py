"""Rows that are one text with a few other tokens: the inner loop of a pair table.

`Substitution` computes what the rows share once; `plain_logits` is the reference, by the
network's own forward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.encoder.encoder import Encoder, Turns
from unmask.models.encoder.layers import Stream

NO_TOKEN = -1  # Is no token's id


class Substitution:
    """Last hidden states at `predict` for rows of values at `vary` of the text `ids`.

    Every row is the same text except for the tokens at `vary`. In the first layer queries, keys
    and values are functions of one token each: those of the tokens that stay are computed once
    for all rows. With token dropout they depend on how many masks a row has, so there is one
    set of them for each number. The last layer runs at one token per row (`Layer.at_one`). With
    6 layers of width d and 16 tokens this leaves 911 of the 1,152 d^2 multiplications.
    """

    def __init__(
        self, encoder: Encoder, ids: Int[Tensor, " T"], vary: Int[Tensor, " v"], predict: int
    ) -> None:
        self.encoder = encoder
        self.ids = ids
        self.vary = vary
        self.predict = predict
        self.length: int = len(ids)
        if encoder.dropped is None:
            sets = 1
            self.mask: int = NO_TOKEN
        else:
            sets = len(vary) + 1  # 0, 1, ..., v masks among the values
            self.mask = encoder.dropped
        # of those that stay
        self.fixed_masks: Tensor = (ids == self.mask).index_fill(0, vary, False).sum()
        masks_of_sets = self.fixed_masks + torch.arange(sets, device=ids.device)
        self.shared: Stream = encoder.embed(
            ids.repeat(sets, 1),
            torch.arange(self.length, device=ids.device),
            masks_of_sets.float() / self.length,
        )
        self.shared_projections: tuple[Tensor, Tensor, Tensor] = encoder.layers[0].project(
            self.shared.normed
        )
        self.turns: Turns = encoder.turns(self.length, self.shared.total)

    def hidden(self, values: Int[Tensor, "n v"]) -> Float[Tensor, "n d"]:
        """The encoder's last hidden state at `predict`, a row of `values` each."""
        first, *others = self.encoder.layers
        varied_masks = (values == self.mask).sum(1)
        share_of_masks = (self.fixed_masks + varied_masks).float() / self.length
        varied = self.encoder.embed(values, self.vary, share_of_masks)
        varied_projections = first.project(varied.normed)
        places = self._places(varied_masks)
        query, key, value = (
            filled(of_shared, of_varied, places)
            for of_shared, of_varied in zip(
                self.shared_projections, varied_projections, strict=True
            )
        )
        mixed = first.attend(query, key, value, turn=self.turns[first.rotary])
        total = filled(self.shared.total, varied.total, places)
        stream = first.after_attention(Stream(total, total), mixed)
        predict = torch.full((len(values), 1), self.predict, device=values.device)
        return self.encoder.finish(stream, others, predict, self.turns)[:, 0]

    def _places(self, varied_masks: Int[Tensor, " n"]) -> Int[Tensor, "n T"]:
        """For each row and token, the index of its vector in the list of the shared vectors
        followed by those that vary.

        The shared vectors are those of the set for no mask among the values, then of the set
        for one mask, and so on; T vectors each.
        """
        device = varied_masks.device
        rows = len(varied_masks)
        varying = len(self.vary)
        places = torch.arange(self.length, device=device).repeat(rows, 1)
        if self.encoder.dropped is not None:
            places = places + varied_masks[:, None] * self.length
        shared = self.shared.total.shape[:2].numel()
        of_varied = torch.arange(shared, shared + rows * varying, device=device)
        places[:, self.vary] = of_varied.reshape(rows, varying)
        return places


def filled(
    shared: Float[Tensor, "s T d"], varied: Float[Tensor, "n v d"], places: Int[Tensor, "n T"]
) -> Float[Tensor, "n T d"]:
    """The vectors at `places` of the list of shared and varied ones; each is written once."""
    vectors = torch.cat([shared.flatten(0, 1), varied.flatten(0, 1)])
    return vectors.index_select(0, places.flatten()).unflatten(0, places.shape)


def plain_logits(
    head: Any,
    text: Int[Tensor, " T"],
    vary: Int[Tensor, " v"],
    predict: int,
    values: Int[Tensor, "n v"],
) -> Float[Tensor, "n V"]:
    """Logits at `predict` with rows of `values` at `vary`, by the network's own forward pass;
    for any architecture.
    """
    rows = text.repeat(len(values), 1)
    rows[:, vary] = values
    positions = torch.full((len(rows), 1), predict, device=text.device)
    logits: Tensor = head(rows, positions)
    return logits[:, 0]


def shared_logits(
    head: Any, substitution: Substitution, values: Int[Tensor, "n v"]
) -> Float[Tensor, "n V"]:
    """The logits of `plain_logits`, by the encoder. A padding token shifts positions: its rows
    go through `plain_logits`.
    """
    hidden = substitution.hidden(values)
    logits: Tensor = head.of_hidden(hidden.unsqueeze(1))[:, 0]
    pad = substitution.encoder.pad_id
    if pad is None:
        return logits
    shifted = (values == pad).any(1)
    if bool(shifted.any()):
        logits[shifted] = plain_logits(
            head,
            text=substitution.ids,
            vary=substitution.vary,
            predict=substitution.predict,
            values=values[shifted],
        )
    return logits
