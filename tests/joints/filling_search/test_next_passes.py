"""Which states the next passes go to."""

import pytest

from unmask.common.cloze import Cloze
from unmask.joints.filling_search.next_passes import NextPasses, open_states
from unmask.joints.filling_search.pool import FillingPool
from unmask.models.tabular import TabularMLM
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Exploration, Variant


def explored(vocab, sites, rounds, size):
    """A pool after so many rounds."""
    model = TabularMLM.random(vocab, sites, seed=2, scale=3.0)
    cloze = Cloze((vocab,) * sites, tuple(range(sites)))
    exploration = Exploration(Conditionals(model), [Variant(cloze)])
    pool = FillingPool(exploration, accept=None)
    exploration.reveal([exploration.states[root] for root in exploration.roots])
    next_passes = NextPasses(pool)
    for _ in range(rounds):
        pool.score_complete(next_passes.begun)
        exploration.reveal(next_passes.choose(size))
    pool.score_complete(next_passes.begun)
    return pool, next_passes


@pytest.mark.parametrize(("vocab", "sites"), [(6, 3), (2, 5)])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_a_round_fills_its_size_with_distinct_states_without_a_pass(vocab, sites, rounds):
    pool, next_passes = explored(vocab, sites, rounds, size=8)
    exploration = pool.exploration
    states_left = (vocab + 1) ** sites - vocab**sites - sum(exploration.passed)
    chosen = next_passes.choose(8)
    assert len(set(chosen)) == len(chosen) <= min(8, states_left)
    assert len(chosen) == 8 or len(chosen) >= len(open_states(exploration))
    for state in chosen:
        assert state not in exploration.index or not exploration.passed[exploration.index[state]]


def test_the_largest_flow_is_among_the_chosen():
    pool, next_passes = explored(vocab=6, sites=3, rounds=2, size=8)
    exploration = pool.exploration
    largest = max(open_states(exploration), key=lambda number: exploration.flow[number])
    assert exploration.states[largest] in next_passes.choose(8)


def test_fillings_that_were_begun_stay_until_they_are_scored():
    pool, next_passes = explored(vocab=2, sites=5, rounds=3, size=8)
    before = [filling for filling in next_passes.begun if filling not in pool.log_probs]
    next_passes.choose(8)
    assert next_passes.begun[: len(before)] == before
    assert len(set(next_passes.begun)) == len(next_passes.begun)


def test_no_passes_choose_nothing():
    _, next_passes = explored(vocab=2, sites=3, rounds=1, size=4)
    assert next_passes.choose(0) == []
    assert next_passes.choose(-5) == []
