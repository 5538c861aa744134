"""Several blocks together: the numbers of single calls, in fewer calls of the model."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.common.cloze import Cloze
from unmask.models.tabular import TabularMLM
from unmask.tables.candidates import choose_candidates, find_candidates, plan_candidates
from unmask.tables.unary import Tables, tables_of, unary_tables


class Watched(TabularMLM):
    """A model of batches of `most` rows, which keeps the number of rows of every call."""

    most = 7

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__(table)
        self.calls: list[int] = []

    def rows_at_once(self, tokens: int, predicted: int) -> int:
        return self.most

    def logits_at(self, ids, positions):
        self.calls.append(len(ids))
        return super().logits_at(ids, positions)


def assert_same(tables: Tables, expected: Tables, atol: float) -> None:
    for name in ("candidates", "log_q", "log_inside", "log_total", "log_masked"):
        ours, theirs = getattr(tables, name), getattr(expected, name)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape
            assert torch.allclose(a, b, rtol=0, atol=atol)
    assert tables.log_masked_inside == pytest.approx(expected.log_masked_inside, abs=atol)
    assert tables.log_between.keys() == expected.log_between.keys()
    for place, between in tables.log_between.items():
        assert torch.allclose(between, expected.log_between[place], rtol=0, atol=atol)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_tables_of_many_blocks_are_those_of_each(seed, data):
    model = Watched.random(4, 4, seed)
    clozes, sets = [], []
    for _ in range(data.draw(st.integers(1, 5))):
        text = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
        block = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
        clozes.append(
            Cloze(tuple(4 if t in block else x for t, x in enumerate(text)), tuple(block))
        )
        some = [
            data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
            for _ in block
        ]
        sets.append(data.draw(st.sampled_from([None, [torch.tensor(one) for one in some]])))
    reported = []
    together = tables_of(
        model, clozes, sets, progress=lambda done, total, what: reported.append((done, total))
    )
    assert reported[-1][0] == reported[-1][1] == sum(model.calls)
    for cloze, candidates, tables in zip(clozes, sets, together, strict=True):
        assert_same(tables, unary_tables(model, cloze, candidates), 1e-12)


def test_small_blocks_share_calls_and_large_ones_do_not():
    model = Watched.random(5, 3, 0)
    clozes = [Cloze((x, 5, 5), (1, 2)) for x in range(4)]
    few = [torch.tensor([0, 1])] * 2
    tables_of(model, clozes, [few] * 4)
    assert model.calls == [4, 7, 7, 2]  # four texts masked, then 4 x (2 + 2) rows by sevens
    model.calls.clear()
    model.most = 3
    tables_of(model, clozes, [None] * 4)
    assert model.calls == [4] + [5] * 8  # each block fills a batch by itself


def test_a_cloze_that_comes_twice_has_its_tables_twice():
    model = Watched.random(5, 3, 0)
    cloze, sets = Cloze((1, 5, 5), (1, 2)), [torch.tensor([0, 3]), torch.tensor([1, 2])]
    for tables in tables_of(model, [cloze, cloze], [sets, sets]):
        assert_same(tables, unary_tables(model, cloze, sets), 0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_candidates_of_many_blocks_are_those_of_each(size):
    model = Watched.random(6, 3, 1)
    clozes = [Cloze((6, 1, 2), (0,))] + [
        Cloze((6, 6, x), (0, 1)) for x in range(4)
    ]  # the first takes every token
    clozes += [Cloze((6, 6, 6), (2, 0, 1)), Cloze((2, 6, 6), (1, 2), (3, 5))]
    model.most = 20
    together = find_candidates(model, [plan_candidates(model, cloze, size) for cloze in clozes])
    shared = len(model.calls)
    model.calls.clear()
    alone = [choose_candidates(model, cloze, size) for cloze in clozes]
    assert [[c.tolist() for c in sets] for sets in together] == [
        [c.tolist() for c in sets] for sets in alone
    ]
    assert shared < len(model.calls)


def test_a_real_model_gives_the_same_numbers_together(tiny):
    texts = [
        "the [MASK] sat",
        "the [MASK] [MASK]",
        "a cat [MASK] on the [MASK]",
        "[MASK] dog [MASK]",
    ]
    clozes = [tiny.cloze(text) for text in texts]
    together = tables_of(tiny, clozes, [choose_candidates(tiny, cloze, 4) for cloze in clozes])
    for cloze, tables in zip(clozes, together, strict=True):
        assert_same(tables, unary_tables(tiny, cloze, tables.candidates), 1e-5)
