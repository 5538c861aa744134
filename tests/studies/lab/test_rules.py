"""Rules that choose positions before tokens: KL(p || law) is the expected total correlation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_models import random_tables
from unmask.studies.lab.dynamics import product_conditional, total_variation
from unmask.studies.lab.entropies import Entropies, kl
from unmask.studies.lab.groupings import schedule_cost, unmasking_law
from unmask.studies.lab.model import ising, table_model
from unmask.studies.lab.rules import (
    decoded,
    entropy_bound,
    every,
    least_dependent,
    lowest_entropy,
)
from unmask.studies.lab.toys import agreement, even_parity

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
