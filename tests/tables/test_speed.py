"""The default number of candidates follows the model's speed, and does not waver with the machine's load."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from unmask.cloze import Cloze
from unmask.models.tabular import TabularMLM
from unmask.tables import candidates
from unmask.tables.candidates import (
    LEAST_PASSES,
    MOST_PASSES,
    NEIGHBOURS,
    SECONDS,
    SPEED,
    find_candidates,
    plan_candidates,
    seconds_per_pass,
)
from unmask.tables.unary import pass_count

VOCABULARY = 600


@pytest.fixture
def clock(monkeypatch):
    """Processor time that only a model's passes take."""
    monkeypatch.setattr(candidates, "time", SimpleNamespace(thread_time=lambda: Timed.clock))


class Timed(TabularMLM):
    """A model of 600 tokens whose pass takes so many seconds of processor time; it may also claim a size."""

    clock = 0.0

    def __init__(self, seconds: float, length: int = 6) -> None:
        super().__init__(torch.zeros((1, VOCABULARY)))
        self.seconds, self.length, self.passes = seconds, length, 0

    def logits(self, ids, positions):
        self.passes += len(ids)
        Timed.clock += self.seconds * len(ids)
        return torch.arange(float(VOCABULARY)).flip(0).expand(*positions.shape, VOCABULARY) / 100


def cloze(model, blanks):
    return Cloze((model.mask_id,) * model.length, tuple(range(blanks)))


@pytest.mark.parametrize("blanks", [2, 3, 4])
def test_fast_models_get_the_most_and_slow_ones_what_takes_about_two_seconds(blanks, clock):
    fast = plan_candidates(Timed(0), cloze(Timed(0), blanks))
    assert fast.neighbours == NEIGHBOURS and pass_count(fast.sizes) <= MOST_PASSES
    before = fast
    for seconds in (0.01, 0.04, 0.16):
        model = Timed(seconds)
        plan = plan_candidates(model, cloze(model, blanks))
        foreseen = seconds / max(2, torch.get_num_threads()) * (plan.passes + pass_count(plan.sizes))
        assert (plan.size == 2 or 2 < plan.size < before.size) and plan.neighbours < before.neighbours
        assert foreseen <= SECONDS or plan.size <= 3 or pass_count(plan.sizes) <= LEAST_PASSES
        before = plan


def test_a_slow_model_still_finds_the_likeliest_and_says_how_many_passes_it_took(clock):
    model = Timed(0.02)
    told = []
    plan = plan_candidates(model, cloze(model, 2))
    model.passes = 0
    found = find_candidates(model, [plan], lambda done, total, what="": told.append((done, total, what)))[0]
    assert [c.tolist() for c in found] == [list(range(plan.size))] * 2
    assert told == [(plan.passes, plan.passes, "passes for candidates")] and model.passes == plan.passes


def test_given_numbers_do_not_follow_the_speed(clock):
    model = Timed(0.001)
    plan = plan_candidates(model, cloze(model, 2), candidates=300)
    assert plan.size == 300 and plan.neighbours == NEIGHBOURS and model.passes == 0


def test_within_a_factor_of_four_the_size_decides_and_beyond_it_the_clock(clock):
    """A claimed size that says 2 ms: passes of 1 to 7 ms on two cores are taken for 2 ms, others for what they are."""
    estimate = 0.002

    def seconds(measured):
        model = Timed(measured * max(2, torch.get_num_threads()))
        model.multiplications = lambda tokens: estimate * SPEED
        return seconds_per_pass(model, 6)

    assert seconds(0.001) == seconds(0.003) == seconds(0.006) == estimate
    assert seconds(0.02) == pytest.approx(0.02, rel=0.5)
    assert seconds(1e-4) < estimate / 4


def test_a_measurement_is_kept_and_the_threads_come_back(clock):
    threads = torch.get_num_threads()
    model = Timed(0.005)
    first = seconds_per_pass(model, 6)
    done = model.passes
    assert seconds_per_pass(model, 6) == first and model.passes == done
    seconds_per_pass(model, 5)
    assert model.passes > done
    assert torch.get_num_threads() == threads


def test_the_bundled_model_has_512_candidates_for_a_pair_of_a_sentence(english):
    text = english.cloze("A young man in a red shirt plays the [MASK] [MASK] while people walk by.")
    plan = plan_candidates(english, text)
    assert plan.size == 512 and plan.neighbours == 64
