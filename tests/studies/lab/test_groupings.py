"""Results 8 and 9: what groups of sites cost that are fixed beforehand."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_models import random_tables
from unmask.studies.lab.entropies import Entropies, kl
from unmask.studies.lab.groupings import (
    best_schedules,
    contiguous,
    even_sizes,
    schedule_cost,
    shuffled,
    spread,
    unmasking_law,
)
from unmask.studies.lab.model import ising

models = random_tables(2.5)


@settings(max_examples=60, deadline=None)
@given(models, st.data())
def test_cost_of_a_schedule_is_its_total_correlation(model, data):
    order = data.draw(st.permutations(range(model.space.sites)))
    cuts = sorted(data.draw(st.sets(st.integers(1, model.space.sites - 1))))
    schedule = tuple(
        tuple(order[a:b]) for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)
    )
    law = unmasking_law(model, schedule)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    costs = schedule_cost(Entropies(model), schedule)
    assert min(costs) > -1e-12
    assert kl(model.p, law) == pytest.approx(sum(costs), abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(models, st.data())
def test_the_best_schedule_is_that_of_all_orders_and_all_cuts(model, data):
    sites, entropies = model.space.sites, Entropies(model)
    steps = data.draw(st.integers(1, sites))
    costs = [
        sum(schedule_cost(entropies, tuple(order[a:b] for a, b in pairwise((0, *cuts, sites)))))
        for cuts in combinations(range(1, sites), steps - 1)
        for order in permutations(range(sites))
    ]
    cost, schedule = best_schedules(model)[steps - 1]
    assert len(schedule) == steps
    assert sorted(i for group in schedule for i in group) == list(range(sites))
    assert cost == pytest.approx(min(costs), abs=1e-12)
    assert cost == pytest.approx(sum(schedule_cost(entropies, schedule)), abs=1e-12)


def test_groups_of_any_sizes_draw_a_path_exactly_where_even_ones_do_not():
    """A path of 8 in 4 steps: the middle, the middles of its halves, and so on. Groups of two
    lose something in every order.
    """
    model = ising(0.6, np.full(8, 0.2), "path")
    entropies = Entropies(model)
    cost, schedule = best_schedules(model)[3]
    assert abs(cost) < 1e-12
    assert kl(model.p, unmasking_law(model, schedule)) == pytest.approx(0, abs=1e-12)
    assert sum(schedule_cost(entropies, ((3,), (1, 5), (0, 2, 4, 6), (7,)))) == pytest.approx(
        0, abs=1e-12
    )
    even = min(sum(schedule_cost(entropies, pairs)) for pairs in ordered_pairs(tuple(range(8))))
    assert even == pytest.approx(9.142e-5, rel=1e-3)


def ordered_pairs(sites):
    """All ways to draw the sites two at a time."""
    if not sites:
        yield ()
    for pair in combinations(sites, 2):
        for rest in ordered_pairs(tuple(site for site in sites if site not in pair)):
            yield (pair, *rest)


def test_on_a_path_every_other_site_is_the_best_half():
    model = ising(0.6, np.full(6, 0.2), "path")
    cost, schedule = best_schedules(model)[1]
    assert {tuple(sorted(group)) for group in schedule} == {(0, 2, 4), (1, 3, 5)}
    assert cost < 0.2 * sum(schedule_cost(Entropies(model), contiguous(6, 2)))


def test_schedules_are_partitions():
    generator = np.random.default_rng(0)
    for sites, steps in ((7, 3), (8, 8), (5, 1)):
        for schedule in (
            contiguous(sites, steps),
            spread(sites, steps),
            shuffled(sites, steps, generator),
        ):
            assert len(schedule) == steps
            assert sorted(i for group in schedule for i in group) == list(range(sites))
            assert sorted(len(g) for g in schedule) == sorted(even_sizes(sites, steps))
