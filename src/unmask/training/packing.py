"""Segments packed into rows of a few fixed lengths, so that a batch has a static shape and hardly any padding.

A row of bucket L holds whole segments end to end, then padding. Attention never crosses from one segment to another
(`layout`), so a packed segment is worth exactly as much as the same segment alone in a row. Each segment goes to the
smallest bucket that takes it. Rows are filled by the longest segments that still fit; equal patterns of lengths are
made together, so packing works on the histogram of lengths and takes seconds for millions of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt

from unmask.runs.files import read_object, write_json
from unmask.training.cache import cached
from unmask.training.token_store import StoredTokens, TokenPart

_SEGMENTS_PER_COPY = 200_000


@dataclass(frozen=True)
class PackedRows:
    """Rows of one bucket, (rows, length) token ids, and how many segments and tokens (padding apart) they hold."""

    length: int
    ids: UInt[np.ndarray, "rows length"]
    segments: int
    tokens: int

    @property
    def tokens_per_segment(self) -> float:
        """Row slots a segment takes on average, padding included."""
        return self.ids.size / max(1, self.segments)


def pack_cached(
    stored: Sequence[StoredTokens], weights: Sequence[float], buckets: Sequence[int], pad: int, seed: int, cache: Path
) -> list[PackedRows]:
    """The training parts packed by `pack`, memory-mapped from the cache, made now if they are not there."""

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
    """Rows of each bucket. A part of weight w has each segment floor(w) times, and once more with probability w's rest."""
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
