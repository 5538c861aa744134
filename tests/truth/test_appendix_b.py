"""Truth 2: the paper's two-token example of an unfaithful random field, column by column."""

from math import log

import pytest
import torch

from support.constructions import hcb, mrf, mrf_logit
from unmask.common.cloze import Cloze
from unmask.joints.metrics import block_metrics
from unmask.joints.reading import read_joints
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables

A, B = 0, 1
EXAMPLE = torch.tensor([[0.97, 0.01], [0.01, 0.01]], dtype=torch.float64)


@pytest.fixture
def tables():
    return unary_tables(TabularMLM.from_joint(EXAMPLE), Cloze((2, 2), (0, 1)))


def test_the_divergence_given_b_is_that_of_the_paper(tables):
    (reading,) = read_joints([mrf(tables)])
    given_b = log(1 / 196 + 1 / 4) + log(196) / 2
    assert given_b == pytest.approx(1.273, abs=5e-4)
    assert float(reading.kl[0][0, B]) == pytest.approx(given_b, abs=1e-12)
    assert float(reading.kl[1][B, 0]) == pytest.approx(given_b, abs=1e-12)


def test_the_divergence_given_a_completes_the_average(tables):
    """q(. | a) = (97/98, 1/98) and the field's weights there are 97/98 and 1/2 times those: a
    Jensen gap again.
    """
    q = (97 / 98, 1 / 98)
    given_a = log(q[0] * q[0] + q[1] / 2) - (q[0] * log(q[0]) + q[1] * log(1 / 2))
    given_b = log(1 / 196 + 1 / 4) + log(196) / 2
    (joints,) = block_metrics([mrf(tables)], (A, B)).joints
    assert joints.a_kl == pytest.approx((given_a + given_b) / 2, abs=1e-12)
    assert joints.g_kl == pytest.approx((given_a + given_b) / 2, abs=1e-12)
    (joints,) = block_metrics([mrf(tables)], (B, B)).joints
    assert joints.g_kl == pytest.approx(given_b, abs=1e-12)
    assert joints.objective == pytest.approx(2 * (given_a + given_b), abs=1e-12)


def test_hcb_is_faithful_where_the_random_field_is_not(tables):
    (joints,) = block_metrics([hcb(tables)], (A, B)).joints
    assert joints.a_kl == pytest.approx(0, abs=1e-14)


def test_the_field_of_logits_equals_that_of_log_probabilities_when_the_logits_are_normalised(
    tables,
):
    """Truth 5; `from_joint` logits are log p(x_t, visible), not normalised, and then the two
    differ.
    """
    normalised = TabularMLM(TabularMLM.random(4, 2, seed=6).table.log_softmax(-1))
    same = unary_tables(normalised, Cloze((4, 4), (0, 1)))
    torch.testing.assert_close(mrf_logit(same).dense(), mrf(same).dense())
    assert not torch.allclose(mrf_logit(tables).dense(), mrf(tables).dense(), atol=1e-2)
