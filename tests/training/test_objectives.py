"""Block and factorised losses against enumeration on tabular models."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import packed_text, toy_vocabulary
from plain_losses import block_nll, factorised_nll

from unmask.models.tabular import TabularMLM
from unmask.training.objectives import ExactlyK, hide
from unmask.training.packing import PackedText

SEEDS = st.integers(0, 2**32)


def random_joint(vocab: int, length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn([vocab] * length, generator=generator, dtype=torch.float64).flatten().softmax(0).reshape([vocab] * length)


def all_texts(vocab: int, length: int) -> torch.Tensor:
    return torch.tensor(list(product(range(vocab), repeat=length)))


def conditional_total_correlation(joint: torch.Tensor, block: tuple[int, ...]) -> float:
    """E[TC(X_K | X_-K)] = sum_i H(X_i | X_-K) - H(X_K | X_-K)."""

    def entropy(axes: tuple[int, ...]) -> float:
        away = tuple(t for t in range(joint.dim()) if t not in axes)
        return float(torch.special.entr(joint.sum(away) if away else joint).sum())

    rest = tuple(t for t in range(joint.dim()) if t not in block)
    given_rest = entropy(rest) if rest else 0.0
    alone = sum(entropy((i, *rest)) - given_rest for i in block)
    return alone - (entropy(tuple(range(joint.dim()))) - given_rest)


@given(seed=SEEDS, length=st.integers(2, 4), data=st.data())
@settings(max_examples=25, deadline=None)
def test_factorised_is_block_plus_total_correlation(seed: int, length: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, length))
    block = data.draw(st.sampled_from(list(combinations(range(length), k))))
    joint = random_joint(3, length, seed)
    model, texts = TabularMLM.from_joint(joint), all_texts(3, length)
    weights = joint.flatten()
    factorised = float((weights * factorised_nll(model, texts, block)).sum())
    blockwise = float((weights * block_nll(model, texts, block)).sum())
    correlation = conditional_total_correlation(joint, block)
    assert abs(factorised - blockwise - correlation) < 1e-12
    assert correlation > 1e-6 or k == 1


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None)
def test_block_loss_of_compatible_conditionals_is_the_conditional_of_the_joint_in_any_order(seed: int) -> None:
    joint, block = random_joint(3, 4, seed), (0, 2, 3)
    model, texts = TabularMLM.from_joint(joint), all_texts(3, 4)
    truth = -(joint / joint.sum((0, 2, 3), keepdim=True)).log().flatten()
    for orders in (None, [(3, 0, 2)], [(0, 2, 3), (2, 3, 0)]):
        assert (block_nll(model, texts, block, orders) - truth).abs().max() < 1e-12


@pytest.mark.parametrize("compatible", [True, False])
def test_one_pass_estimates_the_block_loss_without_bias(compatible: bool) -> None:
    """The law that `hide` states, enumerated: j uniform, every subset of j shown alike, weights k / (k - j)."""
    model = TabularMLM.from_joint(random_joint(3, 4, 1)) if compatible else TabularMLM.random(3, 4, seed=1)
    texts, block = all_texts(3, 4), (0, 1, 3)
    k = len(block)
    expected = torch.zeros(len(texts), dtype=torch.float64)
    for j in range(k):
        for shown in combinations(block, j):
            masked = tuple(i for i in block if i not in shown)
            expected += factorised_nll(model, texts, masked) * (k / (k - j)) / (k * math.comb(k, j))
    assert (expected - block_nll(model, texts, block)).abs().max() < 1e-12


def test_hide_follows_that_law() -> None:
    vocabulary = toy_vocabulary()
    k, n = 3, 12000
    row = packed_text([[6, 5]], 24, vocabulary)
    text = PackedText.of(row.ids.repeat(n, 1), vocabulary)
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
