"""The score of a blank's tokens against its formula."""

import pytest
import torch

from support.candidate_cases import masked_cloze, scores_by_enumeration
from unmask.models.tabular import TabularMLM
from unmask.tables.candidate_scores import NEIGHBOURS, likely_tokens
from unmask.tables.conditionals import regular_tokens


@pytest.mark.parametrize(
    ("block", "seed"), [((0, 1), 0), ((2, 0), 1), ((0, 1, 2), 2), ((1, 3, 0), 3)]
)
def test_likely_tokens_are_those_of_highest_score(block, seed):
    model = TabularMLM.random(5, 4, seed)
    assert model.vocab_size <= NEIGHBOURS
    cloze = masked_cloze(model, *block)
    score = scores_by_enumeration(model, cloze)
    for size in (1, 3, 5):
        for t, chosen in enumerate(likely_tokens(model, cloze, size, regular_tokens(model))):
            assert chosen.tolist() == score[t].argsort(descending=True)[:size].tolist()


def test_a_token_that_is_likely_only_beside_its_neighbour_is_found():
    """With both masked, token 4 is the least likely second token; after token 0, the likely
    first one, it is nearly sure.
    """
    model = TabularMLM(torch.zeros((2, 6, 6, 5), dtype=torch.float64))
    both, first_known = model.table[:, 5, 5], model.table[1, 0, 5]
    both[0] = torch.tensor([3.0, 0, 0, 0, 0])
    both[1] = torch.tensor([1.0, 0.9, 0.8, 0.7, -5])
    first_known[4] = 9.0
    cloze = masked_cloze(model, 0, 1)
    assert 4 in likely_tokens(model, cloze, 1, regular_tokens(model))[1]
    assert 4 not in both[1].topk(4).indices
