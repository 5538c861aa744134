"""Which tokens a joint is derived over: the score against its formula, and what is refused."""

import pytest
import torch

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.tables.candidates import (
    LEAST_PASSES,
    MOST_PASSES,
    NEIGHBOURS,
    SECONDS,
    SPEED,
    check_feasible,
    choose_candidates,
    default_size,
    find_candidates,
    likely_tokens,
    plan_candidates,
)
from unmask.tables.conditionals import regular_tokens
from unmask.tables.unary import pass_count


def masked_cloze(model: TabularMLM, *block: int) -> Cloze:
    return Cloze((model.mask_id,) * model.length, block)


def scores_by_enumeration(model: TabularMLM, cloze: Cloze) -> torch.Tensor:
    """The score of `unmask.tables.candidates`, one token at a time; every token is a neighbour,
    for V <= NEIGHBOURS.
    """
    k, vocabulary = len(cloze.block), model.vocab_size
    ids = torch.tensor([cloze.ids])
    m = [model.logits(ids, torch.tensor([[p]]))[0, 0].softmax(-1) for p in cloze.block]
    out = torch.zeros(k, vocabulary, dtype=torch.float64)
    for t in range(k):
        for x in range(vocabulary):
            out[t, x] = m[t][x] / 2
            for s in range(k):
                for y in range(vocabulary) if s != t else ():
                    row = ids.clone()
                    row[0, cloze.block[s]] = y
                    q = model.logits(row, torch.tensor([[cloze.block[t]]]))[0, 0].softmax(-1)
                    out[t, x] += m[s][y] * q[x] / (2 * (k - 1))
    return out


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


def test_special_tokens_are_never_candidates():
    model = TabularMLM.random(5, 2, 0)
    model.special_ids = (1, 3, 5)
    cloze = masked_cloze(model, 0, 1)
    for options in ({"exact": True}, {}, {"candidates": 2}, {"candidates": 99}):
        for chosen in choose_candidates(model, cloze, **options):
            assert set(chosen.tolist()) <= {0, 2, 4}
    assert choose_candidates(model, cloze, exact=True)[0].tolist() == [0, 2, 4]


def test_a_small_vocabulary_is_taken_whole_and_one_blank_always():
    model = TabularMLM.random(5, 3, 0)
    for block in ((0,), (0, 1), (0, 1, 2)):
        assert [c.tolist() for c in choose_candidates(model, masked_cloze(model, *block))] == [
            [0, 1, 2, 3, 4]
        ] * len(block)
    assert choose_candidates(model, masked_cloze(model, 1), candidates=2)[0].tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]


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
        (0, "candidates 0 is out of range"),
    ],
)
def test_bad_sets_are_refused(candidates, message):
    model = TabularMLM.random(5, 2, 0)
    with pytest.raises(InputError, match=message):
        choose_candidates(model, masked_cloze(model, 0, 1), candidates)


def test_default_sizes_use_the_budget_and_no_more():
    for blanks in range(3, 8):
        size = default_size(blanks)
        assert size == 2 or pass_count([size] * blanks) <= MOST_PASSES < pass_count(
            [size + 1] * blanks
        )
    assert default_size(2) == 512
    assert [default_size(k) for k in range(2, 9)] == sorted(
        (default_size(k) for k in range(2, 9)), reverse=True
    )


@pytest.mark.parametrize("blanks", [2, 3, 4])
def test_small_models_get_the_most_and_large_ones_what_takes_about_two_seconds(blanks):
    model = TabularMLM(torch.zeros((1, 600)))
    model.logits = lambda ids, positions: (
        torch.arange(600.0).flip(0).expand(*positions.shape, 600) / 100
    )
    cloze, before = (
        Cloze((model.mask_id,) * 6, tuple(range(blanks))),
        plan_candidates(model, masked_cloze(model, 0)),
    )
    for seconds in (0.0, 0.005, 0.02, 0.08):
        model.multiplications = lambda tokens, seconds=seconds: seconds * SPEED["cpu"]
        plan = plan_candidates(model, cloze)
        assert (plan.size, plan.neighbours) < (before.size, before.neighbours + 1)
        taken = seconds * (plan.passes + pass_count(plan.sizes))
        assert taken <= SECONDS or plan.size <= 3 or pass_count(plan.sizes) <= LEAST_PASSES
        before = plan
    reported = []
    (sets,) = find_candidates(model, [plan], lambda *step: reported.append(step))
    assert [c.tolist() for c in sets] == [list(range(plan.size))] * blanks
    assert reported == [(plan.passes, plan.passes, "passes for candidates")]
    assert plan_candidates(model, cloze, candidates=30).size == 30, (
        "a given number does not follow the size"
    )


def test_the_bundled_model_has_512_candidates_for_a_pair_of_a_sentence(english):
    plan = plan_candidates(
        english,
        english.cloze("A young man in a red shirt plays the [MASK] [MASK] while people walk by."),
    )
    assert plan.size == 512
    assert plan.neighbours == 64


def test_a_default_answer_about_a_long_text_keeps_its_number_of_candidates(english):
    """The estimated speed of a machine decides it, and with it the numbers of the answer."""
    text = "A young man plays [MASK] [MASK] in the park." + " He is happy." * 10
    plan = plan_candidates(english, english.cloze(text))
    assert (len(plan.cloze.ids), plan.size, plan.neighbours) == (52, 187, 16)


def test_too_many_passes_or_cells_are_refused_with_what_would_fit():
    check_feasible([28_996] * 2, 28_996)
    check_feasible([20] * 4, 20)
    with pytest.raises(
        InputError,
        match=r"12,012,001 passes .* 8,000,000,000 cells .* use candidates=(\d+) or fewer",
    ) as refused:
        check_feasible([2_000] * 3, 8_000)
    fits = int(str(refused.value).split("candidates=")[1].split()[0])
    check_feasible([fits] * 3, 8_000)
    with pytest.raises(InputError):
        check_feasible([fits + 1] * 3, 8_000)
    with pytest.raises(InputError, match="use fewer blanks"):
        check_feasible([2] * 30, 8_000)
    check_feasible([2_000] * 3, 8_000, force=True)
