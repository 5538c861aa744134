"""What the rest of `unmask` asks of a masked language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class ConditionalModel(Protocol):
    """A map from a partly masked text to logits f_t(. | text) over the vocabulary at chosen positions.

    dtype        number format of the weights; logits come in it, but never narrower than float32
    max_length   the most tokens that a text may have, special ones included; None where nothing limits it
    """

    vocab_size: int
    mask_id: int
    special_ids: tuple[int, ...]
    device: torch.device
    dtype: torch.dtype
    max_length: int | None

    def logits(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits at `positions` of each row of `ids`; the same numbers whatever the batch size."""
        ...

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """Logits at position `predict` of the text `ids` with row i of `values` written at the positions `vary`.

        Yields (rows, logits of those rows) in order, in batches that fit the memory budget, so that a caller can
        keep what it needs of each batch and let the rest go.
        """
        ...
