"""Segments are packed whole into rows, and rows into batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.common.errors import InputError
from unmask.studies.training.packing import BatchPlan, PackedRows, TokenPart, pack


@given(
    lengths=st.lists(st.integers(3, 16), min_size=1, max_size=120),
    weight=st.sampled_from([1.0, 2.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_every_segment_is_packed_whole_and_as_often_as_its_weight(lengths, weight):
    segments = [[2, *range(10 + 20 * i, 10 + 20 * i + n - 2), 3] for i, n in enumerate(lengths)]
    part = TokenPart(
        np.concatenate([np.array(s, np.uint16) for s in segments]), np.array(lengths, np.int32)
    )
    seen: Counter[tuple[int, ...]] = Counter()
    rows = pack([part], [weight], 16, 0, seed=4)
    for row in rows.ids:
        used = row[row != 0]
        seen.update(
            tuple(segment.tolist()) for segment in np.split(used, np.flatnonzero(used == 2)[1:])
        )
    assert rows.tokens == np.count_nonzero(rows.ids)
    assert seen == Counter({k: int(weight * n) for k, n in Counter(map(tuple, segments)).items()})


def test_packing_wastes_little_and_weighs_sources():
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 60, 3000).astype(np.int32)
    parts = [TokenPart(np.full(lengths.sum(), 9 + i, np.uint16), lengths) for i in range(2)]
    rows = pack(parts, [1.0, 2.5], 128, 0, seed=1)
    assert rows.tokens / rows.ids.size > 0.97
    share = (rows.ids == 10).sum() / (rows.ids == 9).sum()
    assert abs(share - 2.5) < 0.05


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
