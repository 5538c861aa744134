"""What the support holds of a model's probability, where the rest is next to nothing and where it is next to everything."""

from math import log, log1p

import pytest
import torch

from unmask.models.tabular import TabularMLM
from unmask.tables.revealing import lost_nats, outside, regular_tokens


def test_regular_tokens_and_what_is_outside_make_the_vocabulary():
    model = TabularMLM.random(6, 1, seed=0)
    model.special_ids = (4, 1, 6)
    assert regular_tokens(model).tolist() == [0, 2, 3, 5] and outside(model, regular_tokens(model)).tolist() == [1, 4]
    assert outside(model, torch.tensor([5, 2])).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("odds", [1e-12, 1e-5, 0.3, 3.0, 1e5, 1e12])
def test_nats_are_right_to_single_precision_whatever_the_share(odds):
    """Four regular tokens of weight 1 and two special ones of weight 2 `odds` each: log(1 + odds)."""
    logits = torch.tensor([[0.0, log(2 * odds), 0, 0, log(2 * odds), 0], [0.0] * 6])
    nats = lost_nats(logits, torch.tensor([1, 4]), logits.logsumexp(1))
    assert nats.tolist() == pytest.approx([log1p(odds), log1p(0.5)], rel=1e-6)
    if odds == 1e12:
        share = logits.double().softmax(1)[0, [1, 4]].sum().float()
        assert -torch.log1p(-share) == torch.inf, "control: of one minus the share nothing is left"
