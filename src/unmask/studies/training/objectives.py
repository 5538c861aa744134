"""Objectives: what the model sees, where it answers, and what the right answer is.

    masked   q(x_i | x_-K)   K is drawn by a scheme and hidden; at each i in K the model predicts
                             x_i, given the rest
    causal   p(x_t | x_<t)   at every position except a segment's last the model predicts the next
                             token, given those before

Both are weighted sums of -log q over positions of packed rows, computed by one encoder: a
causal model is the same network whose attention does not look ahead. A segment's start token is
given, its end token is predicted, so a causal model's text has the probability p(x) = prod_t
p(x_t | x_<t) over all lengths.

Masking schemes (`masking`) are laws of the set K, drawn again for every segment; special tokens are
never masked.

A masked position always shows the mask token, so that the conditionals a model learns are those
of the text, not of a corrupted one. The loss of a masked model, per position of K with k = |K|,
is one of

    factorised      sum_{i in K} -log q(x_i | x_{-K}).
                    Its optimum is the block loss plus E[TC(X_K | X_{-K})].
    block           -log p(x_K | x_{-K}) by the chain rule along a uniformly random order s of K:
                    sum_j -log q(x_{s_j} | x_{-K}, x_{s_1..s_{j-1}}).
                    One pass estimates it without bias: draw j uniform on 0..k-1, show j random
                    positions of K, and weigh each of the k - j that stay masked by k / (k - j).

In a parallel corpus both objectives ask for the translation only, given its source. A masked
model may also be asked for source tokens that are hidden, at a rate of their own. Refinement is
learning to correct one's own output (Savinov et al. 2022):

    y ~ prod_i q(. | x_-K) at the masked set K, in one step
    loss = sum_{i in K} -log q(x_i | y_K, x_-K)

The second pass sees the tokens that the first one put in place of the masks, all drawn
independently of each other, and is asked for the right ones. What is drawn carries no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.studies.training.encoder import Slots
from unmask.studies.training.masking.scheme import MaskingScheme, capacity, drawn_mask
from unmask.studies.training.masking.schemes import FixedRate
from unmask.studies.training.packed_text import PackedText, Vocabulary

if TYPE_CHECKING:
    from unmask.studies.training.settings import TrainSettings


class Task(NamedTuple):
    """Ids that the model sees, positions where it answers, right answers, their weights, and
    the divisor of the weighted sum.
    """

    shown: Int[Tensor, "R L"]
    predicted: Bool[Tensor, "R L"]
    answer: Int[Tensor, "R L"]
    weight: Float[Tensor, "R L"]
    total: Int[Tensor, ""]

    def part(self, first: int, stop: int) -> Task:
        """The task of some rows, with the divisor of all."""
        shown, predicted, answer, weight = (value[first:stop] for value in self[:4])
        return Task(shown, predicted, answer, weight, self.total)


def hide(
    loss: Literal["factorised", "block"],
    text: PackedText,
    block: Bool[Tensor, "R L"],
    generator: Generator,
) -> tuple[Bool[Tensor, "R L"], Float[Tensor, "R L"]]:
    """Which positions of the block stay masked in this pass, and the weight of each one's -log
    q in the loss.
    """
    if loss == "factorised":
        return block, block.float()
    k = text.count(block)
    shown = (
        (text.noise(generator).gather(1, text.start) * k).floor().clamp(max=(k - 1).clamp(min=0))
    )
    masked = block & (text.rank(text.noise(generator), block) >= shown)
    return masked, torch.where(masked, k / (k - shown).clamp(min=1), 0.0)


@dataclass(frozen=True)
class MaskedTasks:
    """Predict hidden positions; `source` is the rate at which source tokens are hidden too."""

    scheme: MaskingScheme = field(default_factory=FixedRate)
    loss: Literal["factorised", "block"] = "factorised"
    source: float = 0.0
    causal = False

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        """One task; everything random comes from the generator."""
        block = drawn_mask(self.scheme, text, generator)
        if self.source:
            block |= (
                text.source & ~vocabulary.special[text.ids] & (text.noise(generator) < self.source)
            )
        mask, weight = hide(self.loss, text, block, generator)
        return Task(
            text.ids.masked_fill(mask, vocabulary.mask), mask, text.ids, weight, block.sum()
        )

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        """A static upper bound on the asked positions of `rows` x `length` tokens."""
        return capacity(self.scheme, rows, length, tokens_per_segment)


@dataclass(frozen=True)
class CausalTasks:
    """Predict the next token, everywhere."""

    causal = True

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        following = text.segment.roll(-1, 1)
        following[:, -1] = 0
        predicted = (
            (text.segment > 0)
            & (text.segment == following)
            & ~(text.source & text.source.roll(-1, 1))
        )
        return Task(text.ids, predicted, text.ids.roll(-1, 1), predicted.float(), predicted.sum())

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        return rows * length


Objective = MaskedTasks | CausalTasks


def objective_of(settings: TrainSettings) -> Objective:
    """The objective that a run trains."""
    if settings.objective == "causal":
        return CausalTasks()
    return MaskedTasks(settings.masking, settings.loss, settings.mask_source)


@torch.no_grad()
def filled_in(
    task: Task,
    logits: Float[Tensor, "m V"],
    slots: Slots,
    vocabulary: Vocabulary,
    generator: Generator,
) -> Task:
    """The task with tokens drawn from `logits`, those of the slots, where they are asked for."""
    allowed = logits.float().masked_fill(vocabulary.special, -torch.inf)
    noise = torch.empty_like(allowed).uniform_(generator=generator).clamp(min=1e-12)
    drawn = (allowed - (-noise.log()).log()).argmax(-1).to(task.shown.dtype)
    proposed = torch.cat([drawn, drawn.new_zeros(1)])[slots.slot_of].view_as(task.shown)
    inside = (slots.slot_of < len(drawn)).view_as(task.predicted)
    return task._replace(shown=torch.where(task.predicted & inside, proposed, task.shown))
