"""Each scheme against its stated law."""

import math
from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.made_up import packed_text, toy_vocabulary
from unmask.common.errors import InputError
from unmask.studies.training.masking.scheme import SCHEMES as REGISTRY
from unmask.studies.training.masking.scheme import MaskingScheme, capacity
from unmask.studies.training.masking.schemes import ExactlyK, FixedRate, UniformRate
from unmask.studies.training.objectives import hide
from unmask.studies.training.packed_text import PackedText

VOCABULARY = toy_vocabulary()
ROWS = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=4).filter(
        lambda s: sum(s) + 2 * len(s) <= 48
    ),
    min_size=1,
    max_size=4,
)
SCHEMES: list[MaskingScheme] = [FixedRate(0.5), UniformRate(0.2, 0.9), ExactlyK(2)]


def draws(scheme, text, count, seed=0):
    """Independent masks of the same text, (count, rows, length): the text stands in as many
    rows.
    """
    copies = PackedText.of(text.ids.repeat(count, 1), VOCABULARY)
    return scheme.draw(copies, torch.Generator().manual_seed(seed)).view(count, *text.ids.shape)


def five_sigma(rate, count):
    return 5 * math.sqrt(rate * (1 - rate) / count)


@given(rows=ROWS, scheme=st.sampled_from(SCHEMES), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_special_tokens_are_never_masked_and_equal_seeds_give_equal_masks(rows, scheme, seed):
    text = packed_text(rows, 48, VOCABULARY, seed)
    mask = scheme.draw(text, torch.Generator().manual_seed(seed))
    assert not (mask & VOCABULARY.special[text.ids]).any()
    assert torch.equal(mask, scheme.draw(text, torch.Generator().manual_seed(seed)))


@given(rows=ROWS, k=st.integers(1, 6), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_exactly_k_masks_k_positions_of_every_segment_or_all(rows, k, seed):
    text = packed_text(rows, 48, VOCABULARY, seed)
    mask = ExactlyK(k).draw(text, torch.Generator().manual_seed(seed))
    for r, segments in enumerate(rows):
        for s, n in enumerate(segments):
            assert int(mask[r][text.segment[r] == s + 1].sum()) == min(k, n)


def test_exactly_k_draws_every_subset_alike():
    text = packed_text([[5]], 8, VOCABULARY)
    n = 6000
    masks = draws(ExactlyK(2), text, n)[:, 0, 1:6]
    seen = torch.tensor(
        [sum(all(m[i] for i in pair) for m in masks.tolist()) for pair in combinations(range(5), 2)]
    )
    assert int(seen.sum()) == n
    assert ((seen / n - 0.1).abs() < five_sigma(0.1, n)).all()


def test_fixed_rate_is_independent_with_the_stated_rate():
    text = packed_text([[12, 12, 12]], 48, VOCABULARY)
    mask = draws(FixedRate(0.15), text, 8000)[:, text.maskable].float()
    assert (mask.mean(0) - 0.15).abs().max() < five_sigma(0.15, 8000)
    covariance = mask.T.cov()
    off = covariance - covariance.diag().diag()
    assert off.abs().max() < 5 * 0.15 * 0.85 / math.sqrt(8000)


def test_uniform_rate_has_the_moments_of_a_uniform_mixture_of_binomials():
    n, low, high = 12, 0.2, 0.8
    text = packed_text([[n]], 16, VOCABULARY)
    counts = draws(UniformRate(low, high), text, 8000).sum((1, 2)).double()
    mean, rate_variance = (low + high) / 2, (high - low) ** 2 / 12
    variance = n * (mean - mean**2 - rate_variance) + n**2 * rate_variance
    assert abs(counts.mean() - n * mean) < 5 * math.sqrt(variance / 8000)
    assert abs(counts.var() / variance - 1) < 5 * math.sqrt(2 / 8000)
    assert (
        abs(counts.var() / (n * mean * (1 - mean)) - 1) > 0.5
    )  # a fixed rate of the same mean would not pass


@pytest.mark.parametrize("scheme", SCHEMES)
def test_masks_stay_within_the_static_capacity(scheme):
    text = packed_text([[10, 14, 4], [20, 8], [3, 3, 3, 3, 3, 3]] * 20, 40, VOCABULARY)
    segments = 20 * 11
    slots = capacity(scheme, 60, 40, 60 * 40 / segments)
    counts = draws(scheme, text, 300).sum((1, 2))
    assert counts.max() <= slots
    assert slots < 60 * 40


def test_short_names():
    names = {
        "fixed:0.15": FixedRate(0.15),
        "uniform:0.15-0.5": UniformRate(0.15, 0.5),
        "k:3": ExactlyK(3),
    }
    assert {name: REGISTRY.taken("masking", name) for name in names} == names
    assert [scheme.spelling for scheme in names.values()] == list(names)


UNKNOWN = [
    "",
    "fixed:",
    "fixed:2",
    "uniform:0.5-0.1",
    "uniform:0.5",
    "k:0",
    "k:1.5",
    "k:inf",
    f"k:{'9' * 400}",
    "fixed:nan",
]


@pytest.mark.parametrize("spec", [*UNKNOWN, "words:0.15", "0.5*k:1+0.5*k:2"])
def test_unknown_names_say_what_is_known(spec):
    with pytest.raises(
        InputError, match="masking .* is unknown: (give fixed:RATE|use one of fixed, uniform, k)"
    ):
        REGISTRY.taken("masking", spec)


def test_the_block_loss_hides_by_its_law():
    """Of `objectives`: j positions shown, j uniform, every subset alike; the others have
    weights k / (k - j).
    """
    k, n = 3, 12000
    row = packed_text([[6, 5]], 24, VOCABULARY)
    text = PackedText.of(row.ids.repeat(n, 1), VOCABULARY)
    generator = torch.Generator().manual_seed(0)
    block = ExactlyK(k).draw(row, generator).repeat(n, 1)
    masked, weight = hide("block", text, block, generator)
    assert not (masked & ~block).any()
    first = block[0] & (row.segment[0] == 1)
    left = masked[:, first]
    assert torch.allclose(weight[:, first], torch.where(left, k / left.sum(1, keepdim=True), 0.0))
    counts = Counter(map(tuple, left.tolist()))
    assert len(counts) == 2**k - 1  # at least one position stays masked
    for key, seen in counts.items():
        law = 1 / (k * math.comb(k, sum(key)))
        assert abs(seen / n - law) < 5 * math.sqrt(law / n)
