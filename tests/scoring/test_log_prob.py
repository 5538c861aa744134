"""log_prob: its normaliser against enumeration, unbiased both ways, between bounds that hold."""

from __future__ import annotations

from itertools import product
from statistics import median

import pytest
import torch

import unmask
from unmask.models.tabular import TabularMLM
from unmask.sampling.target import energies
from unmask.scoring.annealed_importance import AnnealingPath, log_mean, log_normaliser
from unmask.scoring.batch import TextBatch, score_batch
from unmask.scoring.registry import LogProb

RUNS = 1000


def enumerated(model, energy):
    """All texts, and log Z."""
    texts = torch.tensor(list(product(range(model.vocab_size), repeat=model.length)))
    minus_energy = -energies(model, texts, energy)
    return texts, minus_energy, float(minus_energy.logsumexp(0))


def blank(model):
    return (model.mask_id,) * model.length


def weights(model, energy, seed, anneals=2):
    """log w of forward runs, and log v of reverse runs that start from exact draws of pi."""
    path = AnnealingPath(model, blank(model), LogProb(energy, RUNS, anneals, seed))
    texts, minus_energy, _ = enumerated(model, energy)
    drawn = minus_energy.softmax(0).multinomial(RUNS, replacement=True, generator=torch.Generator().manual_seed(seed))
    return path.forward()[1], path.reverse(texts[drawn])


def in_standard_errors(log_w, log_z):
    """How far the mean of w / Z is from 1."""
    relative = (log_w - log_z).exp()
    return float((relative.mean() - 1) / (relative.std() / len(relative) ** 0.5))


@pytest.mark.parametrize("energy", ["norm", "raw"])
@pytest.mark.parametrize("seed", [0, 1])
def test_weights_are_unbiased_and_bound_log_z(energy, seed):
    model = TabularMLM.random(3, 3, seed, scale=1.0)
    log_z = enumerated(model, energy)[2]
    forward, reverse = weights(model, energy, seed)
    assert abs(in_standard_errors(forward, log_z)) < 4
    assert abs(in_standard_errors(-reverse, -log_z)) < 4
    assert float(forward.mean()) < log_z < float(reverse.mean())


def test_more_steps_bring_the_bounds_together():
    model = TabularMLM.random(3, 3, seed=4, scale=1.0)
    gaps = []
    for anneals in (1, 12):
        forward, reverse = weights(model, "norm", 4, anneals)
        gaps.append(float(reverse.mean() - forward.mean()))
    assert 0 < gaps[1] < 0.6 * gaps[0]


def test_runs_from_the_wrong_law_are_biased():
    """The control: reverse runs that start from uniform texts instead of pi do not give 1/Z."""
    model = TabularMLM.random(3, 3, seed=0)
    texts, _, log_z = enumerated(model, "raw")
    path = AnnealingPath(model, blank(model), LogProb("raw", RUNS, 1, 0))
    uniform = torch.randint(len(texts), (RUNS,), generator=torch.Generator().manual_seed(0))
    assert abs(in_standard_errors(-path.reverse(texts[uniform]), -log_z)) > 6


@pytest.mark.parametrize("energy", ["norm", "raw"])
def test_bounds_hold_where_the_texts_are_too_many_to_enumerate(energy):
    model = TabularMLM.random(18, 3, seed=3, scale=0.8)
    log_z = enumerated(model, energy)[2]
    found = [log_normaliser(model, blank(model), LogProb(energy, 64, 8, seed)) for seed in range(6)]
    assert not any(z.exact for z in found)
    assert sum(z.low <= log_z <= z.high for z in found) >= 5
    assert median(z.high - z.low for z in found) < 1
    assert abs(sum(z.log_z for z in found) / 6 - log_z) < 0.2


@pytest.mark.parametrize("energy", ["norm", "raw"])
def test_log_prob_sums_to_one(energy):
    model = TabularMLM.random(3, 4, seed=6)
    texts = torch.tensor(list(product(range(3), repeat=4)))
    found = score_batch(model, TextBatch.of(texts), [LogProb(energy)])["log_prob"]
    assert float(found.values.exp().sum()) == pytest.approx(1, abs=1e-10)
    assert torch.equal(found.extra["low"], found.values) and found.extra["exact"].tolist() == [1.0] * len(texts)


def test_a_target_is_given_what_stands_around_it():
    model = TabularMLM.random(3, 4, seed=7)
    texts = torch.tensor([[0, a, b, 2] for a, b in product(range(3), repeat=2)])
    sites = torch.tensor([[1, 2]]).expand(9, -1)
    found = score_batch(model, TextBatch.of(texts, sites=sites), [LogProb()])["log_prob"].values
    assert torch.allclose(found, (-energies(model, texts, "norm")).log_softmax(0))


def test_log_mean_of_equal_weights_has_no_error():
    assert log_mean(torch.full((5,), -2.0, dtype=torch.float64)) == (pytest.approx(-2), pytest.approx(0))


def test_words(tiny):
    texts, told = ["the cat", "a dog", "the zebra", "dog", "the cat sat on a mat"], []
    found = unmask.score(
        texts, [LogProb(chains=4, anneals=1), "energy_norm"], model=tiny, progress=lambda *count: told.append(count)
    )
    first, second, unknown, one, longer = found
    assert first["log_prob_exact"] and first["log_prob"] == first["log_prob_low"] == first["log_prob_high"]
    assert first["log_prob"] - second["log_prob"] == pytest.approx(second["energy_norm"] - first["energy_norm"], abs=1e-4)
    assert unknown["log_prob"] is None and "outside the support" in unknown["reason"]
    assert one["log_prob"] < 0 and not longer["log_prob_exact"]
    assert (16, 16, "annealing steps") in told and told[-1] == (5, 5, "texts")
    assert longer["log_prob_low"] <= longer["log_prob"] <= longer["log_prob_high"]
