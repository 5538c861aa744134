"""The map of two blanks, which the page draws, against the enumerated joint."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from unmask.common.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.models.tabular import TabularMLM
from unmask.surfaces.serving.drawings import pair_map
from unmask.tables.unary import unary_tables


def joints(model, construction):
    tables = unary_tables(model, Cloze((model.mask_id,) * 2, (0, 1)))
    return derive(tables, construction), derive(tables, "product")


@pytest.mark.parametrize("construction", ["balanced", "chain", "mrf"])
def test_the_whole_map_is_the_joint(construction):
    joint, product = joints(TabularMLM.random(5, 2, seed=4), construction)
    figure = pair_map(joint, product, cells=5)
    rows, columns = (torch.tensor(axis["ids"]) for axis in figure["axes"])
    assert_allclose(figure["joint"], joint.dense().exp()[rows][:, columns])
    assert_allclose(figure["product"], product.dense().exp()[rows][:, columns])
    for t, axis in enumerate(figure["axes"]):
        assert_allclose(axis["marginal"], joint.dense().exp().sum(1 - t)[axis["ids"]])
        assert axis["marginal"] == sorted(axis["marginal"], reverse=True)


def test_a_small_map_has_the_tokens_that_are_likely_on_average_of_both_laws():
    """As the page says; they are not those that are likeliest under the joint alone."""
    other = 0
    for seed in range(20):
        joint, product = joints(TabularMLM.random(9, 2, seed=seed), "chain")
        figure = pair_map(joint, product, cells=4, gold=[0, 1])
        for t, axis in enumerate(figure["axes"]):
            own, apart = joint.dense().exp().sum(1 - t), product.dense().exp().sum(1 - t)
            by_average = (own + apart).argsort(descending=True).tolist()
            others = [token for token in by_average if token != axis["stands"]][:3]
            assert sorted(axis["ids"]) == sorted([axis["stands"], *others])
            other += sorted(axis["ids"]) != sorted(own.topk(4).indices.tolist())
    assert other > 20


@pytest.mark.parametrize("blank", [0, 1])
def test_a_pinned_word_gives_the_joint_s_and_the_model_s_conditionals(blank):
    """Of incompatible tables they differ; of compatible ones they are the same."""
    truth = (
        torch.rand((4, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1
    )
    for model, agree in (
        (TabularMLM.random(4, 2, seed=2), False),
        (TabularMLM.from_joint(truth / truth.sum()), True),
    ):
        joint, product = joints(model, "pseudo_gibbs")
        held = pair_map(joint, product, cells=4, pinned=(blank, 3))["given"]
        row = joint.dense().exp().select(blank, 3)
        assert_allclose(held["given"], (row / row.sum())[held["ids"]])
        ids = torch.tensor([[model.mask_id, model.mask_id]])
        ids[0, blank] = 3
        own = model.logits(ids, torch.tensor([[1 - blank]]))[0, 0].softmax(0)
        assert_allclose(held["model"], own[held["ids"]], rtol=1e-5)
        assert np.allclose(held["given"], held["model"], atol=1e-5) == agree
