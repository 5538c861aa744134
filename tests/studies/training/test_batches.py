"""Batches are a function of the seed and the step."""

from __future__ import annotations

import numpy as np
import pytest

from unmask.common.errors import InputError
from unmask.studies.training.batches import BatchPlan
from unmask.studies.training.packing import PackedRows


def made_rows(count, length, first):
    ids = np.arange(first, first + count, dtype=np.uint16)[:, None].repeat(length, 1)
    return PackedRows(ids, count, ids.size)


def test_batches_are_a_function_of_seed_and_step():
    packed = made_rows(50, 8, 100)
    plan, fresh = BatchPlan(packed, 64, 7), BatchPlan(packed, 64, 7)
    assert plan.steps_per_epoch == 50 // 8
    steps = list(range(3 * plan.steps_per_epoch))
    batches = [plan.batch(s) for s in steps]
    for s in reversed(steps):
        assert np.array_equal(fresh.batch(s), batches[s])
    for epoch in range(3):
        rows = [r for b in batches[epoch * 6 : epoch * 6 + 6] for r in b[:, 0].tolist()]
        assert len(rows) == len(set(rows)) == 6 * 8
    assert any(not np.array_equal(BatchPlan(packed, 64, 8).batch(s), batches[s]) for s in range(5))


def test_corpus_shorter_than_a_batch():
    with pytest.raises(
        InputError,
        match=(
            r"fills 5 rows of 16 tokens, shorter than one batch \(128 tokens, 8 rows\).*between 16"
            r" and 80"
        ),
    ):
        BatchPlan(made_rows(5, 16, 10), 128, 0)
    with pytest.raises(InputError, match="the corpus is empty"):
        BatchPlan(made_rows(0, 16, 10), 128, 0)
