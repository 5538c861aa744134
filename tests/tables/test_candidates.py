"""Which tokens a joint is derived over, and what is refused."""

import pytest
import torch

from support.candidate_cases import masked_cloze, scores_by_enumeration
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.tables.candidates import choose_candidates, find_candidates, plan_candidates


def test_special_tokens_are_never_candidates():
    model = TabularMLM.random(5, 2, 0)
    model.special_ids = (1, 3, 5)
    cloze = masked_cloze(model, 0, 1)
    for options in ({"candidates": "all"}, {}, {"candidates": 2}, {"candidates": 99}):
        for chosen in choose_candidates(model, cloze, **options):
            assert set(chosen.tolist()) <= {0, 2, 4}
    assert choose_candidates(model, cloze, "all")[0].tolist() == [0, 2, 4]


def test_a_small_vocabulary_is_taken_whole_and_one_blank_always():
    model = TabularMLM.random(5, 3, 0)
    for block in ((0,), (0, 1), (0, 1, 2)):
        assert [c.tolist() for c in choose_candidates(model, masked_cloze(model, *block))] == [
            [0, 1, 2, 3, 4]
        ] * len(block)


def test_the_candidates_of_one_blank_are_its_likeliest_tokens():
    model = TabularMLM.random(5, 3, 0)
    cloze = masked_cloze(model, 1)
    log_q = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))[0, 0]
    for size in (1, 2, 4):
        (chosen,) = choose_candidates(model, cloze, candidates=size)
        assert chosen.tolist() == log_q.topk(size).indices.tolist()


def test_gold_tokens_are_candidates_however_unlikely():
    model = TabularMLM.random(5, 2, 4)
    cloze = masked_cloze(model, 0, 1)
    last = [int(s.argmin()) for s in scores_by_enumeration(model, cloze)]
    assert all(g not in c for g, c in zip(last, choose_candidates(model, cloze, 3), strict=True))
    with_gold = Cloze(cloze.ids, cloze.block, tuple(last))
    assert all(
        g in c and len(c) == 3
        for g, c in zip(last, choose_candidates(model, with_gold, 3), strict=True)
    )


def test_given_sets_are_used_as_they_are():
    model = TabularMLM.random(5, 2, 0)
    sets = choose_candidates(model, masked_cloze(model, 0, 1), [[4, 0], [2]])
    assert [c.tolist() for c in sets] == [[4, 0], [2]]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([[0]], "1 candidate sets for 2 blanks"),
        ([[0], [7]], "candidate 7 of blank 2 is not a regular token"),
        ([[0, 0], [1]], "blank 1 are empty or name a token twice"),
        ([[0], []], "blank 2 are empty"),
    ],
)
def test_bad_sets_are_refused(candidates, message):
    model = TabularMLM.random(5, 2, 0)
    with pytest.raises(InputError, match=message):
        choose_candidates(model, masked_cloze(model, 0, 1), candidates)


@pytest.mark.parametrize("at_once", [None, 1, 7, 100])
def test_several_texts_have_the_candidates_that_each_has_alone(at_once):
    model = TabularMLM.random(5, 4, 0)
    clozes = [masked_cloze(model, *block) for block in ((0, 1), (0, 1, 2), (3, 2), (1,), (2, 0))]
    alone = [choose_candidates(model, cloze, 3) for cloze in clozes]
    model.rows_at_once = lambda tokens, predicted: at_once
    together = find_candidates(model, [plan_candidates(model, cloze, 3) for cloze in clozes])
    assert [[c.tolist() for c in sets] for sets in together] == [
        [c.tolist() for c in sets] for sets in alone
    ]
