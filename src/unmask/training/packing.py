"""Segments packed into rows of a few fixed lengths, so that a batch has a static shape and hardly any padding.

A row of bucket L holds whole segments end to end, then padding. Attention never crosses from one segment to another, so a
packed segment trains exactly as the same segment alone in a row. Each segment goes to the smallest bucket that takes it. Rows
are filled by the longest segments that still fit; equal patterns of lengths are made together, so packing works on the
histogram of lengths and takes seconds for millions of segments.

The batch of a step is a function of (seed, step) only, so a run can resume anywhere. An epoch permutes the rows of every bucket
with a generator seeded by (seed, epoch, bucket), cuts them into batches of one shape, and shuffles the batches of all buckets.
Rows that do not fill a batch sit out that epoch.

Every segment begins with the start token, so the ids alone carry the layout: segment = running count of start tokens
(0 for padding), position = distance from the segment's start token. In a parallel corpus a segment is a source and its
translation, and what follows the segment's first end token has positions from `Vocabulary.target` on (`translation/pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt
from tokenizers import Tokenizer
from torch import Tensor

from unmask.errors import InputError
from unmask.models.text.word_pieces import special_id
from unmask.runs.files import read_object, write_json
from unmask.training.corpus import StoredTokens, TokenPart, cached, continuing_pieces

_SEGMENTS_PER_COPY = 200_000


@dataclass(frozen=True)
class PackedRows:
    """Rows of one bucket, (rows, length) token ids, and the number of segments and of tokens (without padding) in them."""

    length: int
    ids: UInt[np.ndarray, "rows length"]
    segments: int
    tokens: int

    @property
    def tokens_per_segment(self) -> float:
        """Mean row slots per segment, padding included."""
        return self.ids.size / max(1, self.segments)

    @property
    def fill(self) -> float:
        """The share of row slots that are tokens."""
        return self.tokens / self.ids.size


def pack_cached(
    stored: Sequence[StoredTokens], weights: Sequence[float], buckets: Sequence[int], pad: int, seed: int, cache: Path
) -> list[PackedRows]:
    """The training parts packed by `pack`, memory-mapped from the cache, or made now."""

    def make(folder: Path) -> None:
        packed = pack([s.train for s in stored], weights, buckets, pad, seed)
        for rows in packed:
            np.save(folder / f"rows-{rows.length}.npy", rows.ids)
        write_json(folder / "counts.json", {rows.length: [rows.segments, rows.tokens] for rows in packed})

    inputs = [[s.fingerprint for s in stored], list(weights), list(buckets), pad, seed]
    folder = cached(cache, "rows", inputs, make)
    counts = read_object(folder / "counts.json")
    return [PackedRows(n, np.load(folder / f"rows-{n}.npy", mmap_mode="r"), *counts[str(n)]) for n in buckets]


def pack(
    parts: Sequence[TokenPart], weights: Sequence[float], buckets: Sequence[int], pad: int, seed: int = 0
) -> list[PackedRows]:
    """Rows of each bucket. A part of weight w has each segment floor(w) times, and once more with probability w - floor(w)."""
    generator = np.random.default_rng(seed)
    lengths, starts, source = [], [], []
    for index, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        copies = int(weight) + (generator.random(len(part.lengths)) < weight % 1)
        begin = np.cumsum(part.lengths, dtype=np.int64) - part.lengths
        lengths.append(np.repeat(part.lengths, copies))
        starts.append(np.repeat(begin, copies))
        source.append(np.full(len(lengths[-1]), index, np.int16))
    length, start, origin = np.concatenate(lengths), np.concatenate(starts), np.concatenate(source)
    order = generator.permutation(len(length))
    length, start, origin = length[order], start[order], origin[order]
    dtype = parts[0].ids.dtype
    out = []
    for below, size in zip([0, *buckets[:-1]], buckets, strict=True):
        here = np.flatnonzero((length > below) & (length <= size))
        row, offset, rows = _places(length[here], size)
        ids = np.full((rows, size), pad, dtype)
        for index, part in enumerate(parts):
            chosen = np.flatnonzero(origin[here] == index)
            for i in range(0, len(chosen), _SEGMENTS_PER_COPY):
                some = chosen[i : i + _SEGMENTS_PER_COPY]
                _copy(part.ids, start[here[some]], length[here[some]], ids, row[some] * size + offset[some])
        out.append(PackedRows(size, ids, len(here), int(length[here].sum(dtype=np.int64))))
    return out


def validation_rows(
    parts: Sequence[TokenPart],
    max_tokens: int,
    row_length: int,
    pad: int,
    limit: int = 1_000_000,
    advice: str = "give a --valid file or a larger --valid-share",
) -> PackedRows:
    """Held-out segments of at most `max_tokens`, packed; at most about `limit` tokens of them, from the start.

    `advice` ends the message if there is none.
    """
    kept = []
    for part in parts:
        ends = np.cumsum(part.lengths, dtype=np.int64)
        fits = (part.lengths <= max_tokens) & (ends <= limit)
        spans = zip(ends[fits] - part.lengths[fits], ends[fits], strict=True)
        kept.append(
            TokenPart(np.concatenate([np.empty(0, part.ids.dtype), *(part.ids[a:b] for a, b in spans)]), part.lengths[fits])
        )
    if not any(len(k.lengths) for k in kept):
        raise InputError(f"no held-out segment of at most {max_tokens} tokens: {advice}")
    return pack(kept, [1.0] * len(kept), [row_length], pad)[0]


def _places(lengths: Int[np.ndarray, " n"], size: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], int]:
    """(row, offset) of each segment, and the number of rows."""
    by_length = [np.flatnonzero(lengths == n) for n in range(size + 1)]
    left = np.array([len(b) for b in by_length])
    row, offset = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    rows = 0
    while left.any():
        pattern, room = [], size
        spare = left.copy()
        while fitting := int(np.flatnonzero(spare[: room + 1]).max(initial=0)):
            pattern.append(fitting)
            spare[fitting] -= 1
            room -= fitting
        times = min(int(left[n]) // pattern.count(n) for n in set(pattern))
        at = 0
        for n in pattern:
            chosen = by_length[n][left[n] - times : left[n]]
            row[chosen], offset[chosen] = np.arange(rows, rows + times), at
            left[n] -= times
            at += n
        rows += times
    return row, offset, rows


def _copy(
    source: UInt[np.ndarray, " tokens"],
    start: Int[np.ndarray, " n"],
    length: Int[np.ndarray, " n"],
    target: UInt[np.ndarray, "rows columns"],
    place: Int[np.ndarray, " n"],
) -> None:
    """target.flat[place[i] : place[i] + length[i]] = source[start[i] : start[i] + length[i]], for all i at once."""
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    target.reshape(-1)[np.repeat(place, length) + within] = source[np.repeat(start, length) + within]


def seed_for(*parts: int) -> int:
    """A 63-bit seed from integers; different parts give independent streams."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> 1)


class Rows(NamedTuple):
    """Rows `first` to `stop` of the `whole` number of a batch's rows."""

    first: int
    stop: int
    whole: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.stop - self.first


@dataclass(frozen=True)
class RowBatch:
    """The rows of one step, and their place in the plan."""

    ids: Int[np.ndarray, "rows length"]
    bucket: int
    epoch: int
    rows: Int[np.ndarray, " rows"]

    def __str__(self) -> str:
        some = ", ".join(map(str, self.rows[:4]))
        return f"epoch {self.epoch}, bucket of {self.bucket} tokens, {len(self.rows)} rows ({some}, ...)"


class BatchPlan:
    """Batches of `batch_tokens` slots from packed rows; `batch(step)` for any step, in any order."""

    def __init__(self, packed: Sequence[PackedRows], batch_tokens: int, seed: int) -> None:
        self.packed = [p for p in packed if len(p.ids)]
        self.seed = seed
        if not self.packed:
            raise InputError("the corpus is empty: no line gave a segment of tokens")
        self.rows = [batch_tokens // p.length for p in self.packed]
        for rows, p in zip(self.rows, self.packed, strict=True):
            if rows < 1 or rows > len(p.ids):
                raise InputError(
                    f"the corpus fills {len(p.ids)} rows of {p.length} tokens, shorter than one batch ({batch_tokens} tokens, "
                    f"{rows} rows): give more text, or --batch-tokens between {p.length} and {len(p.ids) * p.length}"
                )
        self.batches = [len(p.ids) // r for p, r in zip(self.packed, self.rows, strict=True)]
        self.steps_per_epoch = sum(self.batches)
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def batch(self, step: int) -> RowBatch:
        """The batch of a step, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        permutations, order = self._epoch(epoch)
        bucket, index = order[place]
        packed, count = self.packed[bucket], self.rows[bucket]
        rows = permutations[bucket][index * count : (index + 1) * count]
        return RowBatch(packed.ids[rows].astype(np.int32), packed.length, epoch, rows)

    def _make_epoch(self, epoch: int) -> tuple[list[Int[np.ndarray, " _"]], Int[np.ndarray, "batches 2"]]:
        permutations = [
            np.random.default_rng(seed_for(self.seed, epoch, b)).permutation(len(p.ids)) for b, p in enumerate(self.packed)
        ]
        order = np.concatenate([np.column_stack([np.full(n, b), np.arange(n)]) for b, n in enumerate(self.batches)])
        return permutations, np.random.default_rng(seed_for(self.seed, epoch, len(self.packed))).permutation(order)


@dataclass(frozen=True)
class Vocabulary:
    """Ids of special tokens, and word pieces that continue a word.

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
        """The vocabulary of a WordPiece tokenizer."""
        continues = torch.from_numpy(continuing_pieces(tokenizer))
        special = torch.zeros_like(continues)
        special[[i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special]] = True
        start, end, pad, mask = (special_id(tokenizer, t) for t in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))
        return cls(len(continues), start, pad, mask, special.to(device), continues.to(device), end, target)


@dataclass(frozen=True)
class PackedText:
    """Token ids in packed rows, and the layout that follows from them.

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

    def part(self, first: int, stop: int) -> PackedText:
        """The layout of some rows."""
        return PackedText(**{name: value[first:stop] for name, value in vars(self).items()})

    def repeated(self, times: int) -> PackedText:
        """The same rows `times` times."""
        return PackedText(**{name: torch.cat([value] * times) for name, value in vars(self).items()})

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
