"""Orders that look at the values drawn."""

import numpy as np
import pytest
from hypothesis import given, settings

from support.random_models import random_tables
from unmask.studies.lab.confidence import greedy_law, mask_predict_law
from unmask.studies.lab.dynamics import product_conditional, total_variation
from unmask.studies.lab.model import ising

models = random_tables(2.5)


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
