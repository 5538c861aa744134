"""Anderson's method without safeguards, on linear maps: it needs no more steps than directions, and
its memory shows the slowest of them.
"""

import pytest
import torch

from unmask.joints.anderson import LONGEST, MEMORY, Changes, Products
from unmask.joints.slowness import SLOWEST_AT_LEAST, slowness_shown, updated_slowness

RATES = torch.tensor([[0.95, 0.6, 0.2, -0.3]], dtype=torch.float64)
TRUTH = torch.tensor([[-1.0, -2.0, -0.5, -3.0]], dtype=torch.float64)
EQUAL_WEIGHTS = torch.zeros_like(TRUTH)  # logarithms


def step(z):
    return TRUTH + RATES * (z - TRUTH)


def after(steps, z):
    """The point after so many steps, the products of the last one, and the changes."""
    changes = Changes(z)
    for _ in range(steps):
        g = step(z)
        changes.add(z, g)
        products = Products.of(changes.inner_products(EQUAL_WEIGHTS))
        z = changes.next_point(g, products.combination())
    return z, products, changes


def test_as_many_changes_as_directions_find_the_fixed_point():
    start = TRUTH + 0.01
    found, _, _ = after(5, start)
    assert float((found - TRUTH).abs().max()) < 1e-6
    plain = start
    for _ in range(5):
        plain = step(plain)
    assert float((plain - TRUTH).abs().max()) > 7e-3


def test_the_changes_show_the_slowest_direction():
    _, products, _ = after(6, TRUTH + 0.01)
    (slowness,) = slowness_shown(products)
    assert slowness == pytest.approx(1 / (1 - 0.95), rel=0.05)


def test_the_next_point_is_near_g_and_the_oldest_change_leaves():
    z, _, changes = after(MEMORY + 3, TRUTH + 1.0)
    assert changes.dz.shape == changes.df.shape == (1, MEMORY, 4)
    g = step(z)
    far = changes.next_point(g, torch.full((1, MEMORY), 1e9, dtype=torch.float64))
    assert float((far - g).abs().max()) == pytest.approx(LONGEST)


def test_a_row_that_was_cleared_takes_a_plain_step():
    z, _, changes = after(3, TRUTH + 1.0)
    changes.clear(torch.tensor([0]))
    g = step(z)
    changes.add(z, g)
    products = Products.of(changes.inner_products(EQUAL_WEIGHTS))
    assert torch.equal(changes.next_point(g, products.combination()), g)


def test_the_slowness_fades_and_rounding_teaches_nothing():
    assert updated_slowness(1000.0, shown=50.0, change=1e-3) == 900.0
    assert updated_slowness(1000.0, shown=5000.0, change=1e-3) == 5000.0
    assert updated_slowness(1000.0, shown=5000.0, change=1e-13) == 900.0
    assert updated_slowness(10.0, shown=1.0, change=1e-3) == SLOWEST_AT_LEAST
