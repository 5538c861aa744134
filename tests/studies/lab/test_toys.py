"""Result 7: the stutter, by hand."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import entr

from unmask.studies.lab.dynamics import product_conditional
from unmask.studies.lab.entropies import Entropies
from unmask.studies.lab.toys import outcomes, slots_model, stutter_pair


@given(st.floats(0.01, 0.99))
@example(0.5)
def test_the_stutter_toy(weight):
    """Result 7: with weight 1/2, a quarter on the stutter, half on impossible pairs, ln 2 nats."""
    pair = stutter_pair(weight)
    product = product_conditional(pair.space, pair.p, (0, 1)).reshape(3, 3)
    assert product[1, 1] == pytest.approx(weight * (1 - weight), abs=1e-14)
    assert product[pair.p.reshape(3, 3) == 0].sum() == pytest.approx(
        2 * weight * (1 - weight), abs=1e-14
    )
    assert Entropies(pair).total_correlation((0, 1)) == pytest.approx(
        entr([weight, 1 - weight]).sum(), abs=1e-14
    )


@pytest.mark.parametrize("slots", [2, 3, 6])
def test_slots_follow_the_binomial(slots):
    model = slots_model(slots)
    drawn = outcomes(model, product_conditional(model.space, model.p, tuple(range(slots))))
    assert drawn["missing"] == pytest.approx((1 - 1 / slots) ** slots, abs=1e-14)
    assert drawn["once"] == pytest.approx((1 - 1 / slots) ** (slots - 1), abs=1e-14)
    assert sum(drawn.values()) == pytest.approx(1, abs=1e-14)
