"""How many candidates a blank has by default: what the model can pass in a few seconds."""

import pytest
import torch

from support.candidate_cases import masked_cloze
from unmask.common.cloze import Cloze
from unmask.models.tabular import TabularMLM
from unmask.tables.candidates import find_candidates, plan_candidates
from unmask.tables.default_effort import (
    DEFAULT_PASSES,
    DEFAULT_SECONDS,
    FEWEST_PASSES,
    SPEED,
    default_size,
)
from unmask.tables.unary import pass_count


def test_default_sizes_use_the_budget_and_no_more():
    for blanks in range(3, 8):
        size = default_size(blanks)
        assert size == 2 or pass_count([size] * blanks) <= DEFAULT_PASSES < pass_count(
            [size + 1] * blanks
        )
    assert default_size(2) == 512
    assert [default_size(k) for k in range(2, 9)] == sorted(
        (default_size(k) for k in range(2, 9)), reverse=True
    )


@pytest.mark.parametrize("blanks", [2, 3, 4])
def test_small_models_get_the_most_and_large_ones_what_takes_about_two_seconds(blanks):
    model = TabularMLM(torch.zeros((1, 600)))
    model.logits_at = lambda ids, positions: (
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
        assert taken <= DEFAULT_SECONDS or plan.size <= 3 or pass_count(plan.sizes) <= FEWEST_PASSES
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
