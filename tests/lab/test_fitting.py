"""Losses and fits: gradients, consistency, the adaptive conditional, and result 6 by Monte Carlo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from unmask.errors import InputError
from unmask.lab.correlation import masked_total_correlation
from unmask.lab.fitting import draw, fit, learn
from unmask.lab.information import block_covariance, block_information, factorised_covariance
from unmask.lab.losses import MaskedLoss
from unmask.lab.mask_law import surprise_masks, uniform_masks, weighted_masks
from unmask.lab.spins import curie_weiss, ising, parse_fields, potts


@st.composite
def spins(draw):
    sites = draw(st.integers(2, 4))
    pairs = sites * (sites - 1) // 2
    numbers = draw(st.lists(st.floats(-0.7, 0.7), min_size=pairs + sites, max_size=pairs + sites))
    return ising(numbers[:pairs], np.array(numbers[pairs:]))


def direct_loss(model, law, theta, counts, factorised):
    p, values = np.exp(model.log_p_at(theta)), model.space.values
    total = 0.0
    for index, mask in enumerate(law.masks):
        rest = [i for i in range(model.space.sites) if i not in mask]
        weight = p if factorised else p * law.at(index)
        for x in np.flatnonzero(counts[index]):
            same = (values[:, rest] == values[x, rest]).all(1)
            if factorised:
                chances = [weight[same & (values[:, i] == values[x, i])].sum() / weight[same].sum() for i in mask]
            else:
                chances = [weight[x] / weight[same].sum()]
            total -= counts[index, x] * np.log(chances).sum()
    return total / counts.sum()


@settings(max_examples=15, deadline=None)
@given(spins(), st.data())
def test_losses_and_gradients(model, data):
    k = data.draw(st.integers(1, model.space.sites))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    theta = generator.normal(size=len(model.theta)) / 2
    for law in (uniform_masks(model.space, k), surprise_masks(model, k)):
        counts = draw(model, law, 50, generator)
        losses = MaskedLoss(model, law)
        for name in ("block", "factorised") if not law.adaptive else ("block",):
            loss, gradient, curvature = getattr(losses, name)(theta, counts)
            assert loss == pytest.approx(direct_loss(model, law, theta, counts, name == "factorised"), abs=1e-10)
            slope = approx_fprime(
                theta, lambda t, name=name, counts=counts, losses=losses: getattr(losses, name)(t, counts)[0], 1e-6
            )
            np.testing.assert_allclose(gradient, slope, atol=2e-5)
            assert np.linalg.eigvalsh(curvature)[0] > -1e-12


def test_curvature_of_the_block_loss_is_its_hessian():
    model = curie_weiss(3, 0.3, 0.2)
    law = surprise_masks(model, 2)
    losses, counts = MaskedLoss(model, law), draw(model, law, 500, np.random.default_rng(1))
    theta = model.theta + 0.3
    slopes = approx_fprime(theta, lambda t: losses.block(t, counts)[1], 1e-6)
    np.testing.assert_allclose(losses.block(theta, counts)[2], slopes, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(spins(), st.data())
def test_infinite_data_give_the_truth(model, data):
    """With the exact joint of (mask, state) as counts every proper loss is least at theta, with the information as curvature."""
    k = data.draw(st.integers(1, model.space.sites))
    for law in (uniform_masks(model.space, k), surprise_masks(model, k)):
        losses, exact = MaskedLoss(model, law), law.joint(model.p) * np.ones((1, model.space.states))
        loss, gradient, curvature = losses.block(model.theta, exact)
        assert np.abs(gradient).max() < 1e-13
        np.testing.assert_allclose(curvature, block_information(model, law), atol=1e-13)
        if not law.adaptive:
            factorised, slope, _ = losses.factorised(model.theta, exact)
            assert np.abs(slope).max() < 1e-13
            assert factorised - loss == pytest.approx(masked_total_correlation(model, law), abs=1e-12)
        found = fit(losses, exact)
        assert found.converged
        np.testing.assert_allclose(found.theta, model.theta, atol=1e-4)


def test_the_naive_loss_is_biased_under_adaptive_masks():
    """Negative control: scoring p(x_K | x_-K) although the masks looked at x does not lead to theta."""
    model = curie_weiss(3, 0.3, np.array([0.2, 0.0, -0.2]))
    adaptive = surprise_masks(model, 2, 1.0)
    exact = adaptive.joint(model.p)
    naive = fit(MaskedLoss(model, uniform_masks(model.space, 2)), exact)
    assert naive.converged and np.abs(naive.theta - model.theta).max() > 0.03
    right = fit(MaskedLoss(model, adaptive), exact)
    assert np.abs(right.theta - model.theta).max() < 1e-5


def test_maximum_likelihood_of_independent_sites_is_the_log_odds():
    model = ising([], np.array([0.4])).along(np.array([-1.0, 1.0]), "field")
    counts = np.array([[30, 70]])
    found = fit(MaskedLoss(ising([], np.array([0.0])), uniform_masks(model.space, 1)), counts)
    assert found.theta[0] == pytest.approx(0.5 * np.log(70 / 30), abs=1e-6)


def test_weighted_masks_fit_too():
    model = potts(3, 0.4, np.array([0.2, -0.1]))
    law = weighted_masks(model.space, {(0,): 1.0, (1,): 3.0, (0, 1): 2.0})
    exact = law.joint(model.p) * np.ones((1, 9))
    np.testing.assert_allclose(fit(MaskedLoss(model, law), exact).theta, model.theta, atol=1e-5)


@pytest.fixture(scope="module")
def five_sites():
    return curie_weiss(5, 0.25, parse_fields("normal:0.2:3", 5))


def test_theory_of_the_learning_experiment(five_sites):
    """Result 6, the closed form: coupling .25, fields .2 times five standard normals of seed 3."""
    traces = [np.trace(block_covariance(five_sites, uniform_masks(five_sites.space, k))) for k in range(1, 6)]
    np.testing.assert_allclose(traces, [94.9, 50.9, 37.5, 32.4, 31.0], atol=0.05)


@pytest.mark.parametrize(
    ("loss", "k"), [("block", 1), ("block", 2), ("block", 3), ("block", 5), ("factorised", 3), ("factorised", 4)]
)
def test_fits_agree_with_the_theory(five_sites, loss, k):
    """Result 6, n=4000, within four standard errors; the theory of another loss or of k=1 is further off."""
    law = uniform_masks(five_sites.space, k)
    found = learn(five_sites, law, loss, 4000, 150, seed=k)
    closed = factorised_covariance if loss == "factorised" else block_covariance
    theory = np.trace(closed(five_sites, law))
    assert found.failed == 0
    assert abs(found.mean - theory) < 4 * found.standard_error < 0.25 * theory
    if k > 1:
        other = np.trace(block_covariance(five_sites, uniform_masks(five_sites.space, 1 if loss == "block" else k)))
        assert abs(found.mean - other) > 4 * found.standard_error


def test_adaptive_fits_agree_with_the_theory(five_sites):
    law = surprise_masks(five_sites, 2)
    found = learn(five_sites, law, "block", 4000, 150, seed=9)
    assert abs(found.mean - np.trace(block_covariance(five_sites, law))) < 4 * found.standard_error


def test_the_same_seed_gives_the_same_fits(five_sites):
    law = uniform_masks(five_sites.space, 4)
    first, again, other = (learn(five_sites, law, "block", 1000, 3, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_too_little_to_learn_from_is_told(five_sites):
    law = uniform_masks(five_sites.space, 2)
    with pytest.raises(InputError, match="at least 2"):
        learn(five_sites, law, "block", 100, 1, 0)
    with pytest.raises(InputError, match="at least 1"):
        learn(five_sites, law, "block", 0, 2, 0)
