"""Segments are packed whole into rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.studies.training.packing import TokenPart, pack


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
