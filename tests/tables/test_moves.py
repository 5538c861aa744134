"""Flows and bounds over moves of two sites and two tokens, against sums by hand.

The states are 0: both sites hidden; 1, 2: the first site revealed as token a, b; 3, 4: the second
one; 5 to 8: the fillings aa, ab, ba, bb.
"""

import numpy as np
import pytest

from unmask.tables.moves import Moves

FIRST = np.array([0.7, 0.3])  # q at the first site with both hidden
SECOND = np.array([0.6, 0.4])
AFTER_A = np.array([0.9, 0.1])  # q at the second site after a at the first
BEFORE_A = np.array([0.8, 0.2])  # q at the first site with a at the second


def moves_of(*, listed: int) -> Moves:
    """Moves out of states 0, 1 and 3, the `listed` likeliest of each site."""
    moves = Moves()
    children = {1: [1, 3], 2: [1, 2, 3, 4]}[listed]
    add(moves, [0], children, np.array([[FIRST, SECOND]]), listed)
    children = {1: [5, 5], 2: [5, 6, 5, 7]}[listed]
    add(moves, [1, 3], children, np.array([[AFTER_A], [BEFORE_A]]), listed)
    return moves


def add(moves: Moves, states: list[int], children: list[int], probability, listed: int) -> None:
    sizes = np.full(probability.shape[:2], listed)
    moves.add(states, children, probability=probability, sizes=sizes, all_known=True)


def test_flow_and_cover_are_means_over_the_next_site():
    flow, cover = moves_of(listed=2).flows(9, roots=[0], weights=[1.0])
    aa = (FIRST[0] * AFTER_A[0] + SECOND[0] * BEFORE_A[0]) / 2
    assert flow[5] == pytest.approx(aa)
    assert cover[5] == pytest.approx(1)
    assert flow[6] == pytest.approx(FIRST[0] * AFTER_A[1] / 2)
    assert cover[6] == pytest.approx(0.5)
    not_passed = [2, 4, 5, 6, 7, 8]
    assert flow[not_passed].sum() == pytest.approx(1)


def test_a_bound_takes_the_likeliest_way_of_each_site():
    moves = moves_of(listed=2)
    nothing = np.array([], dtype=np.int64)
    bound = moves.bounds(9, aside=nothing)
    assert bound[1] == pytest.approx(AFTER_A[0])
    through_first = max(FIRST[0] * AFTER_A[0], FIRST[1])
    through_second = max(SECOND[0] * BEFORE_A[0], SECOND[1])
    assert bound[0] == pytest.approx((through_first + through_second) / 2)
    without_aa = moves.bounds(9, aside=np.array([5]))
    assert without_aa[1] == pytest.approx(AFTER_A[1])
    assert without_aa[0] < bound[0]


def test_a_move_that_is_not_listed_counts_in_the_bound_as_the_likeliest_of_the_rest():
    few = moves_of(listed=1)
    assert len(few) == 4
    assert not few.all_listed()
    assert moves_of(listed=2).all_listed()
    without_aa = few.bounds(9, aside=np.array([5]))
    assert without_aa[1] == pytest.approx(AFTER_A[1])
    flow, _ = few.flows(9, roots=[0], weights=[1.0])
    left_out = [FIRST[1] / 2, SECOND[1] / 2, flow[1] * AFTER_A[1], flow[3] * BEFORE_A[1]]
    assert few.largest_flow_left_out(flow) == pytest.approx(max(left_out))


def test_ways_count_the_moves_into_each_filling():
    assert moves_of(listed=2).ways()[5:].tolist() == [2, 1, 1]
    assert Moves().ways().tolist() == []
