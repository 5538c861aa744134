"""Results 8 and 9, orders that look at the values drawn, and rules: KL(p || law) is the
expected total correlation.
"""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr

from support.random_models import random_tables
from unmask.studies.lab.dynamics import product_conditional, total_variation
from unmask.studies.lab.model import ising, table_model
from unmask.studies.lab.schedules import (
    Entropies,
    agreement,
    best_schedules,
    contiguous,
    decoded,
    entropy_bound,
    even_parity,
    even_sizes,
    every,
    greedy_law,
    kl,
    least_dependent,
    lowest_entropy,
    mask_predict_law,
    masked_cross_entropy,
    schedule_cost,
    shuffled,
    spread,
    unmasking_law,
)

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


@settings(max_examples=40, deadline=None)
@given(models)
def test_masked_cross_entropies_sum_to_the_entropy(model):
    sites = model.space.sites
    total = sum(masked_cross_entropy(model, k) / k for k in range(1, sites + 1))
    assert total == pytest.approx(entr(model.p).sum(), abs=1e-12)
    if sites > 2:
        assert (
            abs(sum(masked_cross_entropy(model, k) / sites for k in range(1, sites + 1)) - total)
            > 1e-3
        )


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


@settings(max_examples=25, deadline=None)
@given(models)
def test_greedy_laws(model):
    sites = model.space.sites
    everything = product_conditional(model.space, model.p, tuple(range(sites)))
    for order in ("sure site", "sure token"):
        np.testing.assert_allclose(greedy_law(model, 1, order), everything, atol=1e-14)
        for steps in range(1, sites + 1):
            assert greedy_law(model, steps, order).sum() == pytest.approx(1, abs=1e-12)
    assert total_variation(greedy_law(model, sites, "sure site"), model.p) < 1e-13
    np.testing.assert_allclose(mask_predict_law(model, 1), everything, atol=1e-14)
    assert mask_predict_law(model, 4).sum() == pytest.approx(1, abs=1e-12)


def test_keeping_the_surest_of_two_independent_tokens_by_hand():
    """Sites with p(1) = .9 and .6: the surer of the two drawn tokens is kept, the other is
    drawn again.
    """
    model = ising(0.0, np.array([np.log(9) / 2, np.log(1.5) / 2]))
    first, second = np.array([0.1, 0.9]), np.array([0.4, 0.6])
    expected = np.zeros((2, 2))
    for a in (0, 1):
        for b in (0, 1):
            for redrawn in (0, 1):
                if first[a] >= second[b]:
                    expected[a, redrawn] += first[a] * second[b] * second[redrawn]
                else:
                    expected[redrawn, b] += first[a] * second[b] * first[redrawn]
    np.testing.assert_allclose(
        greedy_law(model, 2, "sure token").reshape(2, 2), expected, atol=1e-14
    )
    assert total_variation(expected.ravel(), model.p) > 0.05


RULES = {
    "one pass": every(1),
    "interleaved": every(2),
    "two lowest": lowest_entropy(2),
    "entropy bound": entropy_bound(0.4),
    "least dependent": least_dependent(0.1),
    "one by one": lowest_entropy(1),
}


@settings(max_examples=40, deadline=None)
@given(random_tables(2.5), st.sampled_from(sorted(RULES)))
def test_the_divergence_is_the_expected_total_correlation(model, name):
    """To 1e-12, for sets that depend on the values revealed; the bound by entropies holds."""
    walk = decoded(model, RULES[name])
    assert walk.law.sum() == pytest.approx(1, abs=1e-12)
    assert kl(model.p, walk.law) == pytest.approx(walk.cost, abs=1e-12)
    assert -1e-12 < walk.cost <= walk.bound + 1e-12
    assert 1 - 1e-9 < walk.passes < model.space.sites + 1e-9


def test_known_cases():
    model = ising(0.6, np.array([0.3, -0.2, 0.1, 0.4]), "path")
    product = decoded(model, every(1))
    assert product.law == pytest.approx(
        product_conditional(model.space, model.p, (0, 1, 2, 3)), abs=1e-14
    )
    assert product.passes == pytest.approx(1)
    assert product.cost == pytest.approx(Entropies(model).total_correlation(range(4)), abs=1e-12)
    single = decoded(model, lowest_entropy(1))
    assert single.passes == pytest.approx(4)
    assert single.law == pytest.approx(model.p, abs=1e-12)
    independent = ising(0.0, np.array([0.3, -0.2, 0.1, 0.4]), "path")
    free = decoded(independent, least_dependent(0.0))
    assert free.passes == pytest.approx(1)
    assert abs(free.cost) < 1e-12 < 0.1 < free.bound


def test_every_mth_site_is_drawn_in_the_order_of_reversed_bits():
    """Each group of sites lies half way between those drawn before it, not beside the last."""
    model = table_model(np.random.default_rng(0).dirichlet(np.ones(256)).reshape((2,) * 8))
    of_four = ((0, 4), (2, 6), (1, 5), (3, 7))
    of_eight = tuple((site,) for site in (0, 4, 2, 6, 1, 5, 3, 7))
    for m, expected in ((4, of_four), (8, of_eight)):
        walk = decoded(model, every(m))
        assert total_variation(walk.law, unmasking_law(model, expected)) < 1e-13
        assert walk.passes == pytest.approx(m)
        assert walk.cost == pytest.approx(sum(schedule_cost(Entropies(model), expected)), abs=1e-12)
    in_turn = ((0, 4), (1, 5), (2, 6), (3, 7))
    assert total_variation(decoded(model, every(4)).law, unmasking_law(model, in_turn)) > 1e-2


def test_pairs_that_are_independent_with_total_correlation():
    """Even parity: all pairs are independent. Agreement: all pairs are, given the third.
    Neither triple is free.
    """
    parity, agreeing = Entropies(even_parity()), Entropies(agreement())
    for a, b in combinations(range(3), 2):
        assert parity.total_correlation((a, b)) == pytest.approx(0, abs=1e-12)
        assert agreeing.total_correlation((a, b), {0, 1, 2} - {a, b}) == pytest.approx(0, abs=1e-12)
    assert parity.total_correlation(range(3)) == pytest.approx(np.log(2), abs=1e-12)
    assert agreeing.total_correlation(range(3)) == pytest.approx(2 * np.log(2), abs=1e-12)
    fooled = decoded(even_parity(), least_dependent(0.0))
    assert fooled.passes == pytest.approx(1)
    assert kl(even_parity().p, fooled.law) == pytest.approx(np.log(2), abs=1e-12)
    careful = decoded(even_parity(), entropy_bound(0.1))
    assert careful.passes == pytest.approx(3)
    assert abs(careful.cost) < 1e-12
