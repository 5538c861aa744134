"""The model protocol: everything that the rest of `unmask` asks of a masked language model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.errors import ModelError


class ConditionalModel(ABC):
    """A map from a partly masked text to logits f_t(. | text) over the vocabulary, at chosen
    positions.

    A model sets the attributes and defines `logits_at`; everything else has a default. The rooms
    call these methods with ids of their own, and none of them checks its arguments: `MaskedLM`
    has checked ones beside them.

    name         what messages call it
    folder       where its files are, if it was read from a folder
    vocab_size   V, the number of logits per position
    mask_id      the id that hides a token
    special_ids  ids below `vocab_size` that are not part of a text
    device       where its weights are
    dtype        number format of the weights; logits come in it, but never narrower than float32
    max_length   the most tokens that a text may have, special ones included; None: no limit
    """

    GIVEN_AS = "what unmask.load returned"  # how a message calls one

    name: str = "the model"
    folder: Path | None = None
    vocab_size: int
    mask_id: int
    special_ids: tuple[int, ...] = ()
    device: torch.device
    dtype: torch.dtype
    max_length: int | None = None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights, by which results are matched with their model; empty: unknown."""
        return ""

    @cached_property
    def input_size(self) -> int:
        """The number of ids that a text may have: 0 to `input_size` - 1, the mask among them."""
        return max(self.vocab_size, self.mask_id + 1)

    @abstractmethod
    def logits_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions` of each row of `ids`; up to rounding they do not depend on the
        batch size.
        """

    def logits(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """The same by its public name. `MaskedLM` checks the arguments here."""
        return self.logits_at(ids, positions)

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """Logits at position `predict` of n texts: text i is `ids` with row i of `values` at the
        positions `vary`.

        Yields (rows, logits of those rows) in order, in batches that fit the memory budget: the
        caller keeps what it needs of each batch and drops the rest. The caller also checks for
        NaN, at the end, so that no batch waits for a GPU. By default there is one batch.
        """
        n = len(values)
        texts = torch.tensor(ids, device=self.device).repeat(n, 1)
        texts[:, list(vary)] = values.to(self.device)
        positions = torch.full((n, 1), predict, device=self.device)
        yield slice(0, n), self.logits_at(texts, positions)[:, 0]

    def rows_at_once(self, tokens: int, predicted: int) -> int | None:
        """The most rows that one call of the network takes, with `predicted` of `tokens` tokens
        predicted; None: no limit.
        """
        return None

    def multiplications(self, tokens: int) -> int | None:
        """About how many numbers a pass of a text of `tokens` tokens multiplies; None: unknown."""
        return None

    def token_text(self, token_id: int) -> str:
        """Readable text of one token."""
        return str(token_id)

    def token(self, token_id: int) -> str:
        """The same by its public name. `MaskedLM` checks the argument here."""
        return self.token_text(token_id)

    def around(self) -> tuple[list[int], list[int]]:
        """The special ids that the model expects before and after a text."""
        return [], []

    def offers_states(self, ids: Int[Tensor, "n T"]) -> bool:
        """Whether `states` and `logits_of` work for texts like these."""
        return False

    def states(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions`; see `offers_states`."""
        raise NotImplementedError

    def logits_of(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        """Logits from last hidden states; see `offers_states`."""
        raise NotImplementedError

    def not_finite(self) -> ModelError:
        """The error for logits that are not finite; it advises the next wider number format."""
        if self.dtype == torch.float64:
            advice = "check its config.json and its weights"
        elif self.dtype == torch.float32:
            advice = "load it with dtype float64"
        else:
            advice = "load it with dtype float32"
        return ModelError(
            f"logits of {self.name} are not finite in {str(self.dtype)[6:]}: {advice}"
        )
