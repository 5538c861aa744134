"""Total correlations and cross-entropies against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr

from support.random_models import random_tables
from unmask.studies.lab.dynamics import conditional, product_conditional
from unmask.studies.lab.entropies import Entropies, masked_cross_entropy
from unmask.studies.lab.model import ising

models = random_tables(2.0)


@settings(max_examples=40, deadline=None)
@given(models, st.data())
def test_total_correlation_is_the_divergence_from_the_product(model, data):
    mask = tuple(sorted(data.draw(st.sets(st.integers(0, model.space.sites - 1), min_size=1))))
    exact, product = (
        conditional(model.space, model.p, mask),
        product_conditional(model.space, model.p, mask),
    )
    expected = float(model.p @ (np.log(exact) - np.log(product)))
    rest = [i for i in range(model.space.sites) if i not in mask]
    assert Entropies(model).total_correlation(mask, rest) == pytest.approx(expected, abs=1e-12)
    assert expected > -1e-13


def test_pairs_depend_on_each_other_given_the_rest_along_edges_only():
    entropies = Entropies(ising(0.5, np.full(5, 0.1), "path"))
    matrix = np.array(
        [
            [entropies.total_correlation((i, j), set(range(5)) - {i, j}) for j in range(5)]
            for i in range(5)
        ]
    )
    np.fill_diagonal(matrix, 0)
    joined = np.abs(np.subtract.outer(range(5), range(5))) == 1
    assert matrix[joined].min() > 0.05
    assert np.abs(matrix[~joined]).max() < 1e-13


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
