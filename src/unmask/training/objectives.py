"""Objectives: what the model sees, where it answers, and what the right answer is.

    masked   K is drawn by a scheme and hidden; at i in K the model predicts x_i given the rest            q(x_i | x_-K)
    causal   at every position except a segment's last the model predicts the next token given those before  p(x_t | x_<t)

Both are weighted sums of -log q over positions of packed rows, computed by one encoder: a causal model is the same network
whose attention does not look ahead. A segment's start token is given, its end token is predicted, so a causal model's text
has the probability p(x) = prod_t p(x_t | x_<t) over all lengths.

The loss of a masked model, per position of K with k = |K|, is one of

    factorised      sum_{i in K} -log q(x_i | x_{-K}).  Its optimum is the block loss plus E[TC(X_K | X_{-K})].
    block           -log p(x_K | x_{-K}) by the chain rule along a uniformly random order s of K:
                    sum_j -log q(x_{s_j} | x_{-K}, x_{s_1..s_{j-1}}).  One pass estimates it without bias: draw j uniform
                    on 0..k-1, show j random positions of K, and weigh each of the k - j that stay masked by k / (k - j).

In a parallel corpus both objectives ask for the translation only, given its source. A masked model may also be asked for source
tokens that are hidden, at a rate of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.options.training import LossName
from unmask.training.masking import FixedRate, MaskingScheme, Replacement, capacity, noise, parse_replacement, parse_scheme
from unmask.training.packing import PackedText, Vocabulary
from unmask.training.settings import TrainSettings


class Task(NamedTuple):
    """Ids that the model sees, positions where it answers, right answers, their weights, and the divisor of the weighted sum."""

    shown: Int[Tensor, "R L"]
    asked: Bool[Tensor, "R L"]
    answer: Int[Tensor, "R L"]
    weight: Float[Tensor, "R L"]
    total: Int[Tensor, ""]


@runtime_checkable
class Objective(Protocol):
    """A way to make tasks of packed texts; `causal` if the model must not look ahead."""

    causal: bool

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        """One task; everything random comes from the generator."""
        ...

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        """A static upper bound on the asked positions of `rows` x `length` tokens."""
        ...


def hide(
    loss: LossName, text: PackedText, block: Bool[Tensor, "R L"], generator: Generator
) -> tuple[Bool[Tensor, "R L"], Float[Tensor, "R L"]]:
    """Which positions of the block stay masked in this pass, and the weight of each one's -log q in the loss."""
    if loss == "factorised":
        return block, block.float()
    k = text.count(block)
    shown = (noise(text, generator).gather(1, text.start) * k).floor().clamp(max=(k - 1).clamp(min=0))
    masked = block & (text.rank(noise(text, generator), block) >= shown)
    return masked, torch.where(masked, k / (k - shown).clamp(min=1), 0.0)


@dataclass(frozen=True)
class Masked:
    """Predict hidden positions, shown as `replacement` decides; `source` is the rate at which source tokens are hidden too."""

    scheme: MaskingScheme = field(default_factory=FixedRate)
    replacement: Replacement = field(default_factory=Replacement)
    loss: LossName = "factorised"
    source: float = 0.0
    causal = False

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        block = self.scheme.draw(text, generator)
        if self.source:
            block |= text.given & ~vocabulary.special[text.ids] & (noise(text, generator) < self.source)
        mask, weight = hide(self.loss, text, block, generator)
        return Task(self.replacement.apply(text, mask, vocabulary, generator), mask, text.ids, weight, block.sum())

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        return capacity(self.scheme, rows, length, tokens_per_segment)


@dataclass(frozen=True)
class Causal:
    """Predict the next token, everywhere."""

    causal = True

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        following = text.segment.roll(-1, 1)
        following[:, -1] = 0
        asked = (text.segment > 0) & (text.segment == following) & ~(text.given & text.given.roll(-1, 1))
        return Task(text.ids, asked, text.ids.roll(-1, 1), asked.float(), asked.sum())

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        return rows * length


def objective_of(settings: TrainSettings) -> Objective:
    """The objective that a run trains."""
    if settings.objective == "causal":
        return Causal()
    return Masked(parse_scheme(settings.masking), parse_replacement(settings.replacement), settings.loss, settings.mask_source)
