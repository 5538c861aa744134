"""The batch of each step, as a function of the seed and the step alone.

So a run can resume anywhere. An epoch permutes the rows with a generator seeded by (seed, epoch),
cuts them into batches, and shuffles the batches. Rows that do not fill a batch sit out that epoch.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int

from unmask.common.errors import InputError, argument_name
from unmask.studies.training.packing import PackedRows


def seed_for(*parts: int) -> int:
    """A seed from integers, which are spread well: seeds of neighbouring steps are unrelated.

    Zeros at the end do not count: (5,) and (5, 0) have the same seed. A seed has 63 bits, so that
    torch also takes the sum of it and a small number.
    """
    sequence = np.random.SeedSequence(list(parts))
    (state,) = sequence.generate_state(1, np.uint64)
    return int(state >> 1)


class BatchPlan:
    """Batches of `batch_tokens` slots from packed rows, of any step, in any order."""

    def __init__(self, packed: PackedRows, batch_tokens: int, seed: int) -> None:
        rows, length = packed.ids.shape
        if not rows:
            raise InputError("the corpus is empty: no line gave a segment of tokens")
        self.packed = packed
        self.seed = seed
        self.rows: int = batch_tokens // length
        """Rows of a batch."""
        if not 1 <= self.rows <= rows:
            fitting = f"{argument_name('batch_tokens')} between {length} and {rows * length}"
            raise InputError(
                f"the corpus fills {rows} rows of {length} tokens, shorter than one batch"
                f" ({batch_tokens} tokens, {self.rows} rows): give more text, or {fitting}"
            )
        self.steps_per_epoch: int = rows // self.rows
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
        of_rows = np.random.default_rng(seed_for(self.seed, epoch, 0))
        of_batches = np.random.default_rng(seed_for(self.seed, epoch, 1))
        permuted = of_rows.permutation(len(self.packed.ids))
        shown = permuted[: self.steps_per_epoch * self.rows]
        batches = shown.reshape(self.steps_per_epoch, self.rows)
        return of_batches.permutation(batches)
