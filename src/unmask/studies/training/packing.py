"""Segments packed into rows of one length, so that a batch has a static shape and hardly any
padding.

A row holds whole segments end to end, then padding. Attention never crosses from one segment to
another, so a packed segment trains exactly as the same segment alone in a row. Rows are filled
by the longest segments that still fit; equal patterns of lengths are made together, so packing
works on the histogram of lengths and takes seconds for millions of segments.

The batch of a step is a function of (seed, step) only, so a run can resume anywhere. An epoch
permutes the rows with a generator seeded by (seed, epoch), cuts them into batches, and shuffles
the batches. Rows that do not fill a batch sit out that epoch.

Every segment begins with the start token, so the ids alone carry the layout: segment = running
count of start tokens (0 for padding), position = distance from the segment's start token. In a
parallel corpus a segment is a source and its translation, and what follows the segment's first
end token has positions from `Vocabulary.target` on (`translation/pairs`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt
from tokenizers import Tokenizer
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.text.word_pieces import special_id

_SEGMENTS_PER_COPY = 200_000


@dataclass(frozen=True)
class TokenPart:
    """Segments of token ids: `ids` end to end and the length of each."""

    ids: UInt[np.ndarray, " tokens"]
    lengths: Int[np.ndarray, " segments"]

    @classmethod
    def of(cls, segments: Sequence[Sequence[int]], id_type: type[np.unsignedinteger]) -> TokenPart:
        """Segments of token ids, joined end to end."""
        lengths = np.fromiter(map(len, segments), np.int32, len(segments))
        every_id = itertools.chain.from_iterable(segments)
        return cls(ids=np.fromiter(every_id, id_type, int(lengths.sum())), lengths=lengths)

    @property
    def tokens(self) -> int:
        """Tokens in all, start and end tokens included."""
        return int(self.lengths.sum(dtype=np.int64))


@dataclass(frozen=True)
class PackedRows:
    """Rows of token ids, and the number of segments and of tokens (without padding) in them."""

    ids: UInt[np.ndarray, "rows length"]
    segments: int
    tokens: int

    @property
    def length(self) -> int:
        """Tokens of a row, padding included."""
        return self.ids.shape[1]

    @property
    def tokens_per_segment(self) -> float:
        """Mean row slots per segment, padding included."""
        return self.ids.size / max(1, self.segments)

    @property
    def fill(self) -> float:
        """The share of row slots that are tokens."""
        return self.tokens / self.ids.size


def pack(
    parts: Sequence[TokenPart], weights: Sequence[float], size: int, pad: int, seed: int = 0
) -> PackedRows:
    """Rows of `size` tokens. A part of weight w has each segment floor(w) times, and once more
    with probability w - floor(w).
    """
    generator = np.random.default_rng(seed)
    lengths, starts, sources = [], [], []
    for index, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        copies = int(weight) + (generator.random(len(part.lengths)) < weight % 1)
        begin = np.cumsum(part.lengths, dtype=np.int64) - part.lengths
        lengths.append(np.repeat(part.lengths, copies))
        starts.append(np.repeat(begin, copies))
        sources.append(np.full(len(lengths[-1]), index, np.int16))
    length, start, source = np.concatenate(lengths), np.concatenate(starts), np.concatenate(sources)
    order = generator.permutation(len(length))
    length, start, source = length[order], start[order], source[order]
    row, offset, rows = _places(length, size)
    ids = np.full((rows, size), pad, parts[0].ids.dtype)
    for index, part in enumerate(parts):
        chosen = np.flatnonzero(source == index)
        for first in range(0, len(chosen), _SEGMENTS_PER_COPY):
            some = chosen[first : first + _SEGMENTS_PER_COPY]
            counts = length[some]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            place = np.repeat(row[some] * size + offset[some], counts) + within
            ids.reshape(-1)[place] = part.ids[np.repeat(start[some], counts) + within]
    return PackedRows(ids, len(length), int(length.sum(dtype=np.int64)))


def validation_rows(
    parts: Sequence[TokenPart], length: int, pad: int, advice: str, limit: int = 1_000_000
) -> PackedRows:
    """Held-out segments, packed; at most about `limit` tokens of each part, from the start.
    `advice`: what to do without any.
    """
    taken = []
    for part in parts:
        ends = np.cumsum(part.lengths, dtype=np.int64)
        count = int(np.searchsorted(ends, limit, side="right"))
        taken.append(TokenPart(part.ids[: ends[count - 1] if count else 0], part.lengths[:count]))
    if not any(len(part.lengths) for part in taken):
        raise InputError(f"no segment is held out: {advice}")
    return pack(taken, [1.0] * len(taken), length, pad)


def _places(
    lengths: Int[np.ndarray, " n"], size: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], int]:
    """(row, offset) of each segment, and the number of rows."""
    by_length = [np.flatnonzero(lengths == n) for n in range(size + 1)]
    remaining = np.array([len(b) for b in by_length])
    row, offset = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    rows = 0
    while remaining.any():
        pattern, room = [], size
        spare = remaining.copy()
        while fitting := int(np.flatnonzero(spare[: room + 1]).max(initial=0)):
            pattern.append(fitting)
            spare[fitting] -= 1
            room -= fitting
        times = min(int(remaining[n]) // pattern.count(n) for n in set(pattern))
        at = 0
        for n in pattern:
            chosen = by_length[n][remaining[n] - times : remaining[n]]
            row[chosen], offset[chosen] = np.arange(rows, rows + times), at
            remaining[n] -= times
            at += n
        rows += times
    return row, offset, rows


def seed_for(*parts: int) -> int:
    """A 63-bit seed from integers; different parts give independent streams."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> 1)


class BatchPlan:
    """Batches of `batch_tokens` slots from packed rows; `batch(step)` for any step, in any
    order.
    """

    def __init__(self, packed: PackedRows, batch_tokens: int, seed: int) -> None:
        rows, length = packed.ids.shape
        if not rows:
            raise InputError("the corpus is empty: no line gave a segment of tokens")
        self.packed, self.seed, self.rows = packed, seed, batch_tokens // length
        if not 1 <= self.rows <= rows:
            raise InputError(
                f"the corpus fills {rows} rows of {length} tokens, shorter than one batch"
                f" ({batch_tokens} tokens, {self.rows} rows): give more text, or --batch-tokens"
                f" between {length} and {rows * length}"
            )
        self.steps_per_epoch = rows // self.rows
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def batch(self, step: int) -> Int[np.ndarray, "rows length"]:
        """The token ids of a step, counted from 0."""
        return self.packed.ids[self.rows_of(step)].astype(np.int32)

    def rows_of(self, step: int) -> Int[np.ndarray, " rows"]:
        """The rows of the corpus that a step shows."""
        epoch, place = divmod(step, self.steps_per_epoch)
        rows: np.ndarray = self._epoch(epoch)[place]
        return rows

    def _make_epoch(self, epoch: int) -> Int[np.ndarray, "batches rows"]:
        """The rows of each batch of an epoch."""
        permuted = np.random.default_rng(seed_for(self.seed, epoch, 0)).permutation(
            len(self.packed.ids)
        )
        batches = permuted[: self.steps_per_epoch * self.rows].reshape(
            self.steps_per_epoch, self.rows
        )
        return np.random.default_rng(seed_for(self.seed, epoch, 1)).permutation(batches)


@dataclass(frozen=True)
class Vocabulary:
    """Ids of special tokens.

    target   of a parallel corpus: the position at which translations begin; 0 for plain text
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
        special = torch.zeros(max(tokenizer.get_vocab().values()) + 1, dtype=torch.bool)
        special[[i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special]] = True
        start, end, pad, mask = (
            special_id(tokenizer, t) for t in ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
        )
        return cls(len(special), start, pad, mask, special.to(device), end, target)


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
        position, source = place - start, torch.zeros_like(begins)
        if vocabulary.target:
            position, source = _in_pairs(ids, place, start, segment > 0, vocabulary)
        same = segment.unsqueeze(2) == segment.unsqueeze(1)
        return cls(ids, segment, start, position, source, same, ~vocabulary.special[ids] & ~source)

    def part(self, first: int, stop: int) -> PackedText:
        """The layout of some rows."""
        return PackedText(**{name: value[first:stop] for name, value in vars(self).items()})

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
    """Positions of sources and translations, and which tokens are sources: all up to the first
    end token of their segment.
    """
    ends = ids == vocabulary.end
    before = ends.cumsum(1) - ends.long()
    source = inside & (before == before.gather(1, start))
    first_end = torch.where(ends & source, place, 0).cummax(1).values
    return (
        torch.where(source | ~inside, place - start, vocabulary.target + place - first_end - 1),
        source,
    )
