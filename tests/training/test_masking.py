"""Each scheme against its stated law."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import packed_text, toy_vocabulary

from unmask.errors import InputError
from unmask.training.objectives import (
    ExactlyK,
    FixedRate,
    MaskingScheme,
    UniformRate,
    WholeWords,
    capacity,
    parse_scheme,
)
from unmask.training.packing import PackedText

VOCABULARY = toy_vocabulary()
ROWS = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=4).filter(lambda s: sum(s) + 2 * len(s) <= 48), min_size=1, max_size=4
)
SCHEMES: list[MaskingScheme] = [
    FixedRate(0.5),
    UniformRate(0.2, 0.9),
    ExactlyK(2),
    WholeWords(0.5),
]


def draws(scheme: MaskingScheme, text: PackedText, count: int, seed: int = 0) -> torch.Tensor:
    """Independent masks of the same text, (count, rows, length): the text stands in as many rows."""
    copies = PackedText.of(text.ids.repeat(count, 1), VOCABULARY)
    return scheme.draw(copies, torch.Generator().manual_seed(seed)).view(count, *text.ids.shape)


def five_sigma(rate: float, count: float) -> float:
    return 5 * math.sqrt(rate * (1 - rate) / count)


@given(rows=ROWS, scheme=st.sampled_from(SCHEMES), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_special_tokens_are_never_masked_and_equal_seeds_give_equal_masks(
    rows: list[list[int]], scheme: MaskingScheme, seed: int
) -> None:
    text = packed_text(rows, 48, VOCABULARY, seed)
    mask = scheme.draw(text, torch.Generator().manual_seed(seed))
    assert not (mask & VOCABULARY.special[text.ids]).any()
    assert torch.equal(mask, scheme.draw(text, torch.Generator().manual_seed(seed)))


@given(rows=ROWS, k=st.integers(1, 6), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_exactly_k_masks_k_positions_of_every_segment_or_all(rows: list[list[int]], k: int, seed: int) -> None:
    text = packed_text(rows, 48, VOCABULARY, seed)
    mask = ExactlyK(k).draw(text, torch.Generator().manual_seed(seed))
    for r, segments in enumerate(rows):
        for s, n in enumerate(segments):
            assert int(mask[r][text.segment[r] == s + 1].sum()) == min(k, n)


def test_exactly_k_draws_every_subset_alike() -> None:
    text = packed_text([[5]], 8, VOCABULARY)
    n = 6000
    masks = draws(ExactlyK(2), text, n)[:, 0, 1:6]
    seen = torch.tensor([sum(all(m[i] for i in pair) for m in masks.tolist()) for pair in combinations(range(5), 2)])
    assert int(seen.sum()) == n
    assert ((seen / n - 0.1).abs() < five_sigma(0.1, n)).all()


def test_fixed_rate_is_independent_with_the_stated_rate() -> None:
    text = packed_text([[12, 12, 12]], 48, VOCABULARY)
    mask = draws(FixedRate(0.15), text, 8000)[:, text.maskable].float()
    assert (mask.mean(0) - 0.15).abs().max() < five_sigma(0.15, 8000)
    covariance = mask.T.cov()
    off = covariance - covariance.diag().diag()
    assert off.abs().max() < 5 * 0.15 * 0.85 / math.sqrt(8000)


def test_uniform_rate_has_the_moments_of_a_uniform_mixture_of_binomials() -> None:
    n, low, high = 12, 0.2, 0.8
    text = packed_text([[n]], 16, VOCABULARY)
    counts = draws(UniformRate(low, high), text, 8000).sum((1, 2)).double()
    mean, rate_variance = (low + high) / 2, (high - low) ** 2 / 12
    variance = n * (mean - mean**2 - rate_variance) + n**2 * rate_variance
    assert abs(counts.mean() - n * mean) < 5 * math.sqrt(variance / 8000)
    assert abs(counts.var() / variance - 1) < 5 * math.sqrt(2 / 8000)
    assert abs(counts.var() / (n * mean * (1 - mean)) - 1) > 0.5  # a fixed rate of the same mean would not pass


@given(rows=ROWS, seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_whole_words_are_masked_together(rows: list[list[int]], seed: int) -> None:
    text = packed_text(rows, 48, VOCABULARY, seed)
    mask = WholeWords(0.5).draw(text, torch.Generator().manual_seed(seed))
    for r in range(len(rows)):
        for i in range(1, 48):
            continues = bool(VOCABULARY.continues[text.ids[r, i]])
            if continues and text.maskable[r, i - 1]:
                assert mask[r, i] == mask[r, i - 1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_masks_stay_within_the_static_capacity(scheme: MaskingScheme) -> None:
    text = packed_text([[10, 14, 4], [20, 8], [3, 3, 3, 3, 3, 3]] * 20, 40, VOCABULARY)
    segments = 20 * 11
    slots = capacity(scheme, 60, 40, 60 * 40 / segments)
    counts = draws(scheme, text, 300).sum((1, 2))
    assert counts.max() <= slots
    assert slots < 60 * 40


@pytest.mark.parametrize(
    ("spec", "scheme"),
    [
        ("fixed:0.15", FixedRate(0.15)),
        ("uniform:0.15-0.5", UniformRate(0.15, 0.5)),
        ("k:3", ExactlyK(3)),
        ("words:0.15", WholeWords(0.15)),
    ],
)
def test_short_names(spec: str, scheme: MaskingScheme) -> None:
    assert parse_scheme(spec) == scheme


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "fixed",
        "fixed:2",
        "uniform:0.5-0.1",
        "uniform:0.5",
        "k:0",
        "k:1.5",
        "k:inf",
        f"k:{'9' * 400}",
        "k:99999999999999999999",
        "fixed:nan",
        "0.5*k:1+0.5*k:2",
    ],
)
def test_unknown_names_say_what_is_known(spec: str) -> None:
    with pytest.raises(InputError, match="masking .* is unknown: give fixed:RATE"):
        parse_scheme(spec)
