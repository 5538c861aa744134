"""What a packed row says about itself: which segment each token belongs to, its place there, what may be masked.

Every segment begins with the start token, so the ids alone carry the layout: segment = running count of start tokens
(0 for padding), position = distance from the segment's start token. In a parallel corpus a segment is a source and its
translation, and what follows the segment's first end token has positions from `Vocabulary.target` on (`models/pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from unmask.models.text.word_pieces import special_id


@dataclass(frozen=True)
class Vocabulary:
    """Which ids mean what: special tokens, and word pieces that continue a word.

    target   of a parallel corpus: the position at which translations begin; 0 for plain text
    """

    size: int
    start: int
    pad: int
    mask: int
    special: Bool[Tensor, " V"]
    continues: Bool[Tensor, " V"]
    end: int = -1
    target: int = 0

    @classmethod
    def of(cls, tokenizer: Tokenizer, device: torch.device | str = "cpu", target: int = 0) -> Vocabulary:
        """The vocabulary of a WordPiece tokenizer; pieces that continue a word start with ##."""
        tokens = tokenizer.get_vocab()
        size = max(tokens.values()) + 1
        special = torch.zeros(size, dtype=torch.bool)
        special[[i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special]] = True
        continues = torch.zeros(size, dtype=torch.bool)
        continues[[i for word, i in tokens.items() if word.startswith("##")]] = True
        start, end, pad, mask = (special_id(tokenizer, t) for t in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))
        return cls(size, start, pad, mask, special.to(device), continues.to(device), end, target)


@dataclass(frozen=True)
class PackedText:
    """Token ids in packed rows, with what follows from them.

    segment     0 for padding, 1, 2, ... along the row
    start       index in the row of the segment's first token
    position    place of each token in its own segment, as the model's position embeddings count
    given       tokens of a source and its end token, which a translation is conditioned on
    same        same[r, i, j]: i and j are in one segment; where attention may look
    maskable    every token that is neither special nor given
    word        index in the row of the first piece of the token's word
    """

    ids: Int[Tensor, "R L"]
    segment: Int[Tensor, "R L"]
    start: Int[Tensor, "R L"]
    position: Int[Tensor, "R L"]
    given: Bool[Tensor, "R L"]
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
        position, given = place - start, torch.zeros_like(begins)
        if vocabulary.target:
            position, given = _in_pairs(ids, place, start, segment > 0, vocabulary)
        special = vocabulary.special[ids]
        word = torch.where(vocabulary.continues[ids] & ~special, 0, place).cummax(1).values
        same = segment.unsqueeze(2) == segment.unsqueeze(1)
        return cls(ids, segment, start, position, given, same, ~special & ~given, word)

    def count(self, chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many tokens of its segment are `chosen`."""
        return (self.same & chosen.unsqueeze(1)).sum(2)

    def rank(self, score: Float[Tensor, "R L"], chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many `chosen` tokens of its segment have a lower score."""
        return (self.same & chosen.unsqueeze(1) & (score.unsqueeze(1) < score.unsqueeze(2))).sum(2)


def _in_pairs(
    ids: Int[Tensor, "R L"],
    place: Int[Tensor, "R L"],
    start: Int[Tensor, "R L"],
    inside: Bool[Tensor, "R L"],
    vocabulary: Vocabulary,
) -> tuple[Int[Tensor, "R L"], Bool[Tensor, "R L"]]:
    """Positions of sources and translations, and which tokens are sources: all up to the first end token of their segment."""
    ends = ids == vocabulary.end
    before = ends.cumsum(1) - ends.long()
    given = inside & (before == before.gather(1, start))
    first_end = torch.where(ends & given, place, 0).cummax(1).values
    return torch.where(given | ~inside, place - start, vocabulary.target + place - first_end - 1), given
