"""The layout of packed rows, which follows from their token ids alone.

Every segment begins with the start token, so the segment of a token is the running count of start
tokens (0 for padding), and its position is its distance from the segment's start token. Attention
never crosses from one segment to another, so a packed segment trains exactly as the same segment
alone in a row.

In a parallel corpus a segment is a source and its translation. What follows the segment's first end
token is the translation, with positions from `Vocabulary.target` on (`unmask.models.pair_layout`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Generator, Tensor

from unmask.models.text.word_pieces import special_id


@dataclass(frozen=True)
class Vocabulary:
    """Ids of special tokens.

    special   of each id, whether it is special
    target    of a parallel corpus: the position at which translations begin; 0 for plain text
    """

    size: int
    start: int
    pad: int
    mask: int
    special: Bool[Tensor, " V"]
    end: int = -1
    target: int = 0

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, device: torch.device | str = "cpu", target: int = 0
    ) -> Vocabulary:
        """The vocabulary of a WordPiece tokenizer."""
        size = max(tokenizer.get_vocab().values()) + 1
        added = tokenizer.get_added_tokens_decoder()
        special = torch.zeros(size, dtype=torch.bool)
        special[[i for i, token in added.items() if token.special]] = True
        return cls(
            size=size,
            start=special_id(tokenizer, "[CLS]"),
            pad=special_id(tokenizer, "[PAD]"),
            mask=special_id(tokenizer, "[MASK]"),
            special=special.to(device),
            end=special_id(tokenizer, "[SEP]"),
            target=target,
        )


@dataclass(frozen=True)
class PackedText:
    """Token ids in packed rows, and the layout that follows from them.

    segment     0 for padding, 1, 2, ... along the row
    start       index in the row of the segment's first token
    position    place of each token in its own segment, as the model's position embeddings count
    source      tokens of a source and its end token, which a translation is conditioned on
    same        same[r, i, j]: i and j are in one segment; where attention may look
    maskable    every token that is neither special nor of a source
    """

    ids: Int[Tensor, "R L"]
    segment: Int[Tensor, "R L"]
    start: Int[Tensor, "R L"]
    position: Int[Tensor, "R L"]
    source: Bool[Tensor, "R L"]
    same: Bool[Tensor, "R L L"]
    maskable: Bool[Tensor, "R L"]

    @classmethod
    def of(cls, ids: Int[Tensor, "R L"], vocabulary: Vocabulary) -> PackedText:
        """The layout of packed rows of ids."""
        begins = ids == vocabulary.start
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        segment = begins.cumsum(1).masked_fill(ids == vocabulary.pad, 0)
        start = torch.where(begins, place, 0).cummax(1).values
        if vocabulary.target:
            position, source = _in_pairs(ids, place, start, segment > 0, vocabulary)
        else:
            position = place - start
            source = torch.zeros_like(begins)
        return cls(
            ids=ids,
            segment=segment,
            start=start,
            position=position,
            source=source,
            same=segment.unsqueeze(2) == segment.unsqueeze(1),
            maskable=~vocabulary.special[ids] & ~source,
        )

    def part(self, first: int, stop: int) -> PackedText:
        """The layout of the rows from `first` to before `stop`."""
        return PackedText(**{name: value[first:stop] for name, value in vars(self).items()})

    def noise(self, generator: Generator) -> Float[Tensor, "R L"]:
        """Independent U(0, 1), one per token."""
        return torch.rand(self.ids.shape, generator=generator, device=self.ids.device)

    def count(self, chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many tokens of its segment are `chosen`."""
        return (self.same & chosen.unsqueeze(1)).sum(2)

    def rank(self, score: Float[Tensor, "R L"], chosen: Bool[Tensor, "R L"]) -> Int[Tensor, "R L"]:
        """For every token, how many `chosen` tokens of its segment have a lower score."""
        lower = score.unsqueeze(1) < score.unsqueeze(2)  # lower[r, i, j]: j's is lower than i's
        return (self.same & chosen.unsqueeze(1) & lower).sum(2)


def _in_pairs(
    ids: Int[Tensor, "R L"],
    place: Int[Tensor, "R L"],
    start: Int[Tensor, "R L"],
    inside: Bool[Tensor, "R L"],
    vocabulary: Vocabulary,
) -> tuple[Int[Tensor, "R L"], Bool[Tensor, "R L"]]:
    """Positions of sources and translations, and which tokens are sources.

    A source is what stands in a segment up to its first end token, that token included.

    place    index of each token in its row
    inside   which tokens are not padding
    """
    ends = ids == vocabulary.end
    ends_before = ends.cumsum(1) - ends.long()
    source = inside & (ends_before == ends_before.gather(1, start))
    first_end = torch.where(ends & source, place, 0).cummax(1).values
    in_source = place - start
    in_target = vocabulary.target + place - first_end - 1
    return torch.where(source | ~inside, in_source, in_target), source
