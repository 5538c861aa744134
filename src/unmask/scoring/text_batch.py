"""Texts of one length, side by side, so that no padding is computed.

Sites are the positions that are scored: all tokens of a text, or those of a target between given
words. Other positions that are not start or end tokens are context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.scoring.encoding import Encoded

GPU_LOGITS = 2**31
"""Bytes of logits of one call on a GPU; rows are made call by call, so memory does not grow
with the text or their number.
"""


@dataclass(frozen=True)
class TextBatch:
    """n texts of T tokens, k of which are scored.

    ids        token ids, start and end tokens included
    sites      positions that are scored, in rising order
    regular    which positions hold a token of the text, rather than a start or end token
    word_end   for each site the first position after its word
    """

    ids: Int[Tensor, "n T"]
    sites: Int[Tensor, "n k"]
    regular: Bool[Tensor, "n T"]
    word_end: Int[Tensor, "n k"]

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "n T"],
        sites: Int[Tensor, "n k"] | None = None,
        regular: Bool[Tensor, "n T"] | None = None,
        word_end: Int[Tensor, "n k"] | None = None,
    ) -> TextBatch:
        """By default every position is regular, every regular one a site, and every token its
        own word.
        """
        if regular is None:
            regular = torch.ones_like(ids, dtype=torch.bool)
        if sites is None:
            sites = regular.nonzero()[:, 1].reshape(len(ids), -1)
        if word_end is None:
            word_end = sites + 1
        return cls(ids=ids, sites=sites, regular=regular, word_end=word_end)

    def to(self, device: torch.device) -> TextBatch:
        """The same on another device; a GPU is not waited for."""

        def moved(part: Tensor) -> Tensor:
            if device.type == "cuda" and not part.is_cuda:
                part = part.pin_memory()  # from other memory the copy would be waited for
            return part.to(device, non_blocking=True)

        return TextBatch(
            ids=moved(self.ids),
            sites=moved(self.sites),
            regular=moved(self.regular),
            word_end=moved(self.word_end),
        )

    def part(self, rows: slice | list[int]) -> TextBatch:
        """Some of the texts."""
        return TextBatch(
            ids=self.ids[rows],
            sites=self.sites[rows],
            regular=self.regular[rows],
            word_end=self.word_end[rows],
        )

    def stretch(self) -> tuple[int, int]:
        """Where the tokens of the texts begin and end; the start and end tokens of one model are
        the same for all texts.
        """
        columns = self.regular.any(0).nonzero().flatten()
        return int(columns[0]), int(columns[-1]) + 1

    def __len__(self) -> int:
        return len(self.ids)


def batch_of(texts: Sequence[Encoded], words: bool = True) -> TextBatch:
    """Texts with equally many tokens and sites, side by side. Without `words` every token is
    its own.
    """
    places = np.arange(len(texts[0].ids))
    inside = np.array([text.tokens.inside for text in texts])
    sites = _matrix([text.sites for text in texts])
    word_end = None
    if words:
        word_end = _word_ends(texts).gather(1, sites)
    return TextBatch.of(
        ids=_matrix([text.ids for text in texts]),
        sites=sites,
        regular=torch.from_numpy((places >= inside[:, :1]) & (places < inside[:, 1:])),
        word_end=word_end,
    )


def _matrix(rows: Sequence[Sequence[int]]) -> Int[Tensor, "n m"]:
    """Rows of equally many whole numbers."""
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return torch.from_numpy(numbers.reshape(len(rows), -1))


def _word_ends(texts: Sequence[Encoded]) -> Int[Tensor, "n T"]:
    """For each position the first after its word."""
    # Start and end tokens are in no word: None becomes NaN, which equals nothing.
    words = np.array([text.tokens.words for text in texts], dtype=np.float64)
    length = words.shape[1]
    ends = np.tile(np.arange(1, length + 1), (len(texts), 1))
    for t in range(length - 2, -1, -1):
        is_same_word = words[:, t] == words[:, t + 1]
        ends[:, t] = np.where(is_same_word, ends[:, t + 1], ends[:, t])
    return torch.from_numpy(ends)
