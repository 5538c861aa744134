"""What a packed row says about itself: which segment each token belongs to, its place there, what may be masked.

Every segment begins with the start token, so the ids alone carry the layout: segment = running count of start tokens
(0 for padding), position = distance from the segment's start token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from unmask.training.tokenizer import special_id


@dataclass(frozen=True)
class Vocabulary:
    """Which ids mean what: special tokens, and word pieces that continue a word."""

    size: int
    start: int
    pad: int
    mask: int
    special: Bool[Tensor, " V"]
    continues: Bool[Tensor, " V"]

    @classmethod
    def of(cls, tokenizer: Tokenizer, device: torch.device | str = "cpu") -> Vocabulary:
        """The vocabulary of a WordPiece tokenizer; pieces that continue a word start with ##."""
        tokens = tokenizer.get_vocab()
        size = max(tokens.values()) + 1
        special = torch.zeros(size, dtype=torch.bool)
        special[[i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special]] = True
        continues = torch.zeros(size, dtype=torch.bool)
        continues[[i for word, i in tokens.items() if word.startswith("##")]] = True
        start, pad, mask = (special_id(tokenizer, t) for t in ("[CLS]", "[PAD]", "[MASK]"))
        return cls(size, start, pad, mask, special.to(device), continues.to(device))


@dataclass(frozen=True)
class PackedText:
    """Token ids in packed rows, with what follows from them.

    segment     0 for padding, 1, 2, ... along the row
    start       index in the row of the segment's first token
    same        same[r, i, j]: i and j are in one segment; where attention may look
    maskable    every token that is not special
    word        index in the row of the first piece of the token's word
    """

    ids: Int[Tensor, "R L"]
    segment: Int[Tensor, "R L"]
    start: Int[Tensor, "R L"]
    same: Bool[Tensor, "R L L"]
    maskable: Bool[Tensor, "R L"]
    word: Int[Tensor, "R L"]

    @classmethod
    def of(cls, ids: Int[Tensor, "R L"], vocabulary: Vocabulary) -> PackedText:
        """The layout of packed rows of ids."""
        begins = ids == vocabulary.start
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        segment = begins.cumsum(1).masked_fill(ids == vocabulary.pad, 0)
        start = torch.where(begins, place, 0).cummax(1).values
        special = vocabulary.special[ids]
        word = torch.where(vocabulary.continues[ids] & ~special, 0, place).cummax(1).values
        return cls(ids, segment, start, segment.unsqueeze(2) == segment.unsqueeze(1), ~special, word)

    @property
    def position(self) -> Int[Tensor, "R L"]:
        """Place of each token in its own segment, as the model's position embeddings count."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) - self.start

    def count(self, chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many tokens of its segment are `chosen`."""
        return (self.same & chosen.unsqueeze(1)).sum(2)

    def rank(self, score: Float[Tensor, "R L"], chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many `chosen` tokens of its segment have a lower score."""
        return (self.same & chosen.unsqueeze(1) & (score.unsqueeze(1) < score.unsqueeze(2))).sum(2)
