"""Segments packed into rows of one length, so that a batch has a static shape and hardly any
padding.

A row holds whole segments end to end, then padding. Rows are filled by the longest segments that
still fit. Rows of equal patterns of lengths are made together, so packing works on the histogram of
lengths and takes seconds for millions of segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt

SEGMENTS_PER_COPY = 200_000  # segments copied into their rows at once, which bounds the indices


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
    def is_empty(self) -> bool:
        """Whether there is no segment."""
        return len(self.lengths) == 0

    @property
    def tokens(self) -> int:
        """Number of tokens, start and end tokens included."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def starts(self) -> Int[np.ndarray, " segments"]:
        """Index in `ids` of each segment's first token."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    def first(self, most_tokens: int) -> TokenPart:
        """As many segments, from the start, as have at most `most_tokens` tokens together."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        count = int(np.searchsorted(ends, most_tokens, side="right"))
        tokens = ends[count - 1] if count else 0
        return TokenPart(ids=self.ids[:tokens], lengths=self.lengths[:count])


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
        """Mean number of a row's slots per segment, padding included."""
        return self.ids.size / max(1, self.segments)

    @property
    def fill(self) -> float:
        """The share of slots that hold a token."""
        return self.tokens / self.ids.size


def pack(
    parts: Sequence[TokenPart], weights: Sequence[float], row_length: int, pad: int, seed: int = 0
) -> PackedRows:
    """Rows of `row_length` tokens, with the segments of all parts in a random order.

    A part of weight w has each segment floor(w) times, and once more with probability w - floor(w).
    """
    generator = np.random.default_rng(seed)
    lengths_of_parts = []
    starts_of_parts = []
    numbers_of_parts = []
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        has_one_more = generator.random(len(part.lengths)) < weight % 1
        copies = int(weight) + has_one_more  # of each segment
        lengths_of_copies = np.repeat(part.lengths, copies)
        lengths_of_parts.append(lengths_of_copies)
        starts_of_parts.append(np.repeat(part.starts, copies))
        numbers_of_parts.append(np.full(len(lengths_of_copies), number, np.int16))
    lengths = np.concatenate(lengths_of_parts)
    order = generator.permutation(len(lengths))
    lengths = lengths[order]
    starts = np.concatenate(starts_of_parts)[order]
    part_numbers = np.concatenate(numbers_of_parts)[order]

    row_of, offset_of, rows = _places(lengths, row_length)
    ids = np.full((rows, row_length), pad, parts[0].ids.dtype)
    slots = ids.reshape(-1)  # the same memory, row after row
    first_slots = row_of * row_length + offset_of
    for number, part in enumerate(parts):
        of_part = np.flatnonzero(part_numbers == number)
        for first in range(0, len(of_part), SEGMENTS_PER_COPY):
            batch = of_part[first : first + SEGMENTS_PER_COPY]
            counts = lengths[batch]
            within = _within(counts)  # place of each token in its segment
            targets = np.repeat(first_slots[batch], counts) + within
            origins = np.repeat(starts[batch], counts) + within
            slots[targets] = part.ids[origins]
    return PackedRows(ids=ids, segments=len(lengths), tokens=int(lengths.sum(dtype=np.int64)))


def _within(counts: Int[np.ndarray, " n"]) -> Int[np.ndarray, " total"]:
    """0, 1, ..., count - 1 of every count, end to end."""
    begins = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(begins, counts)


def validation_rows(
    parts: Sequence[TokenPart], row_length: int, pad: int, limit: int = 1_000_000
) -> PackedRows:
    """Held-out segments, packed: at most `limit` tokens of each part, from the start."""
    limited = [part.first(limit) for part in parts]
    return pack(limited, [1.0] * len(limited), row_length, pad)


def _places(
    lengths: Int[np.ndarray, " n"], row_length: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], int]:
    """Each segment's row, each segment's offset in its row, and the number of rows.

    `pattern`, the lengths of a row's segments, is repeated in as many rows as possible.
    """
    by_length = [np.flatnonzero(lengths == length) for length in range(row_length + 1)]
    remaining = np.array([len(of_length) for of_length in by_length])
    row_of = np.empty(len(lengths), np.int64)
    offset_of = np.empty(len(lengths), np.int64)
    rows = 0
    while remaining.any():
        pattern = _longest_that_fit(remaining, row_length)
        per_row = {length: pattern.count(length) for length in set(pattern)}
        times = min(int(remaining[length]) // count for length, count in per_row.items())
        offset = 0
        for length in pattern:
            end = remaining[length]  # segments of equal length are taken from the last to the first
            taken = by_length[length][end - times : end]
            row_of[taken] = np.arange(rows, rows + times)
            offset_of[taken] = offset
            remaining[length] -= times
            offset += length
        rows += times
    return row_of, offset_of, rows


def _longest_that_fit(remaining: Int[np.ndarray, " lengths"], row_length: int) -> list[int]:
    """The lengths of a row's segments: at each step the longest that is left and fits.

    remaining   number of segments left of each length, from 0 to `row_length`
    """
    left = remaining.copy()
    room = row_length
    pattern: list[int] = []
    while True:
        longest = int(np.flatnonzero(left[: room + 1]).max(initial=0))
        if longest == 0:  # nothing fits
            return pattern
        pattern.append(longest)
        left[longest] -= 1
        room -= longest
