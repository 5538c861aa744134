"""Which rows make up the batch of a step: a function of (seed, step) and nothing else, so a run can resume anywhere.

An epoch permutes the rows of every bucket with a generator seeded by (seed, epoch, bucket), cuts them into batches of
one shape, and shuffles the batches of all buckets. Rows that do not fill a batch sit out that epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Int

from unmask.errors import InputError
from unmask.training.packing import PackedRows


def seed_for(*parts: int) -> int:
    """A 63-bit seed from integers; different parts give independent streams."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> 1)


@dataclass(frozen=True)
class Batch:
    """The rows of one step, and where they come from."""

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
        self.steps_per_epoch = sum(len(p.ids) // r for p, r in zip(self.packed, self.rows, strict=True))
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        permutations, order = self._epoch(epoch)
        bucket, index = order[place]
        packed, count = self.packed[bucket], self.rows[bucket]
        rows = permutations[bucket][index * count : (index + 1) * count]
        return Batch(packed.ids[rows].astype(np.int32), packed.length, epoch, rows)

    def _make_epoch(self, epoch: int) -> tuple[list[Int[np.ndarray, " _"]], Int[np.ndarray, "batches 2"]]:
        permutations = [
            np.random.default_rng(seed_for(self.seed, epoch, b)).permutation(len(p.ids)) for b, p in enumerate(self.packed)
        ]
        order = np.concatenate(
            [
                np.column_stack([np.full(n, b), np.arange(n)])
                for b, n in enumerate(len(p.ids) // r for p, r in zip(self.packed, self.rows, strict=True))
            ]
        )
        return permutations, np.random.default_rng(seed_for(self.seed, epoch, len(self.packed))).permutation(order)
