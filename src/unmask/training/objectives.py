"""What a model is trained to predict, as a task: what it sees, where it answers, and what it should say there.

    masked   K is drawn by a scheme and hidden; at i in K the model says x_i given the rest          q(x_i | x_-K)
    causal   at every position but a segment's last the model says the next token given those before  p(x_t | x_<t)

Both are weighted sums of -log q over positions of packed rows, computed by one encoder: a causal model is the same network
whose attention does not look ahead. A segment's start token is given, its end token is predicted, so a causal model's text
has the probability p(x) = prod_t p(x_t | x_<t) over all lengths.

In a parallel corpus both ask for the translation only, given its source. A masked model may also be asked for source tokens
that are hidden, at a rate of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.options.training import LossName
from unmask.training.layout import PackedText, Vocabulary
from unmask.training.losses import hide
from unmask.training.masking import FixedRate, MaskingScheme, Replacement, capacity, noise, parse_replacement, parse_scheme
from unmask.training.settings import TrainSettings


class Task(NamedTuple):
    """The ids that the model sees, the positions where it answers, the right answers, their weights, and what to divide by."""

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
        """A static number of positions that the asked ones of `rows` x `length` tokens stay within."""
        ...


@dataclass(frozen=True)
class Masked:
    """Hidden positions, each shown as `replacement` says; `source`: the rate at which source tokens are hidden besides."""

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
    """The next token, everywhere."""

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
