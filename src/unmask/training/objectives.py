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

Refinement is learning to correct one's own output (Savinov et al. 2022):

    y ~ prod_i q(. | x_-K) at the masked set K, in one step;   loss  sum_{i in K} -log q(x_i | y_K, x_-K)

The second pass sees the tokens that the first one put in place of the masks, all drawn independently of each other, and is asked
for the right ones. What is drawn carries no gradient.

The compatibility regulariser is a penalty on pairs of conditionals that no joint distribution has. The two unary conditionals of
a pair of positions (a, b), the rest of the text shown, come from one joint if and only if, for all x, x', y, y', the log
cross-ratios agree:

    log [q_a(x|y) q_a(x'|y') / (q_a(x'|y) q_a(x|y'))]  =  log [q_b(y|x) q_b(y'|x') / (q_b(y'|x) q_b(y|x'))].

Normalisers cancel, so logits suffice. In training, every segment of some packed rows gives one random pair. Its tokens are x, y;
x', y' are drawn from the model itself with both masked, so that the values compete. The penalty is the mean squared gap over
segments. It takes five passes over the rows, one of them without gradient; segments do not see each other, so all segments of a
row are varied at once. Only the logits of the drawn tokens are computed, never a whole vocabulary's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.training.encoder import PackedBert, Slots
from unmask.training.masking import FixedRate, MaskingScheme, Replacement, capacity, noise, parse_replacement, parse_scheme
from unmask.training.packing import PackedText, Vocabulary
from unmask.training.settings import TrainSettings

LossName = Literal["factorised", "block"]


class Task(NamedTuple):
    """Ids that the model sees, positions where it answers, right answers, their weights, and the divisor of the weighted sum."""

    shown: Int[Tensor, "R L"]
    asked: Bool[Tensor, "R L"]
    answer: Int[Tensor, "R L"]
    weight: Float[Tensor, "R L"]
    total: Int[Tensor, ""]

    def part(self, first: int, stop: int) -> Task:
        """The task of some rows, with the divisor of all."""
        shown, asked, answer, weight = (value[first:stop] for value in self[:4])
        return Task(shown, asked, answer, weight, self.total)


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
class MaskedTasks:
    """Predict hidden positions, shown as `replacement` decides; `source` is the rate at which source tokens are hidden too."""

    scheme: MaskingScheme = field(default_factory=FixedRate)
    replacement: Replacement = field(default_factory=Replacement)
    loss: LossName = "factorised"
    source: float = 0.0
    causal = False

    def task(self, text: PackedText, vocabulary: Vocabulary, generator: Generator) -> Task:
        """One task; everything random comes from the generator."""
        block = self.scheme.draw(text, generator)
        if self.source:
            block |= text.given & ~vocabulary.special[text.ids] & (noise(text, generator) < self.source)
        mask, weight = hide(self.loss, text, block, generator)
        return Task(self.replacement.apply(text, mask, vocabulary, generator), mask, text.ids, weight, block.sum())

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
        asked = (text.segment > 0) & (text.segment == following) & ~(text.given & text.given.roll(-1, 1))
        return Task(text.ids, asked, text.ids.roll(-1, 1), asked.float(), asked.sum())

    def slots(self, rows: int, length: int, tokens_per_segment: float) -> int:
        return rows * length


Objective = MaskedTasks | CausalTasks


def objective_of(settings: TrainSettings) -> Objective:
    """The objective that a run trains."""
    if settings.objective == "causal":
        return CausalTasks()
    return MaskedTasks(
        parse_scheme(settings.masking), parse_replacement(settings.replacement), settings.loss, settings.mask_source
    )


@torch.no_grad()
def filled_in(task: Task, logits: Float[Tensor, "m V"], slots: Slots, vocabulary: Vocabulary, generator: Generator) -> Task:
    """The task with tokens drawn from `logits`, those of the slots, where they are asked for."""
    allowed = logits.float().masked_fill(vocabulary.special, -torch.inf)
    noise = torch.empty_like(allowed).uniform_(generator=generator).clamp(min=1e-12)
    drawn = (allowed - (-noise.log()).log()).argmax(-1).to(task.shown.dtype)
    proposed = torch.cat([drawn, drawn.new_zeros(1)])[slots.of].view_as(task.shown)
    inside = (slots.of < len(drawn)).view_as(task.asked)
    return task._replace(shown=torch.where(task.asked & inside, proposed, task.shown))


class PositionPairs(NamedTuple):
    """One pair of positions (flat indices a, b) of each of some segments, their tokens (x, y), and others drawn (x2, y2).

    The number of pairs is static; `filled` marks the real ones.
    """

    a: Int[Tensor, " m"]
    b: Int[Tensor, " m"]
    filled: Bool[Tensor, " m"]
    x: Int[Tensor, " m"]
    y: Int[Tensor, " m"]
    x2: Int[Tensor, " m"]
    y2: Int[Tensor, " m"]


def draw_pairs(bert: PackedBert, text: PackedText, vocabulary: Vocabulary, capacity: int, generator: Generator) -> PositionPairs:
    """Pairs from at most `capacity` segments; their other values are drawn from the model's own marginals with both masked."""
    rank = text.rank(noise(text, generator), text.maskable)
    enough = text.maskable & (text.count(text.maskable) > 1)
    at_a, at_b = enough & (rank == 0), enough & (rank == 1)
    length = text.ids.shape[1]
    a, filled, _ = Slots.gather(at_a, capacity)
    b = a // length * length + (text.same & at_b.unsqueeze(1)).to(torch.uint8).argmax(2).flatten()[a]
    x, y = text.ids.flatten()[a], text.ids.flatten()[b]
    mask = torch.full_like(x, vocabulary.mask)
    pairs = PositionPairs(a, b, filled, x, y, x, y)
    with torch.no_grad():
        hidden = bert.hidden(_shown(text, pairs, mask, mask), text)
        x2, y2 = (_draw(bert.logits(hidden[p]), vocabulary, generator).to(x.dtype) for p in (a, b))
    return pairs._replace(x2=x2, y2=y2)


def compatibility_penalty(bert: PackedBert, text: PackedText, vocabulary: Vocabulary, pairs: PositionPairs) -> Float[Tensor, ""]:
    """The mean squared cross-ratio gap of the pairs."""
    a, b, filled, x, y, x2, y2 = pairs
    mask, tokens = torch.full_like(x, vocabulary.mask), text.ids.numel()
    seen = [_shown(text, pairs, *values) for values in ((mask, y), (mask, y2), (x, mask), (x2, mask))]
    hidden = bert.hidden(torch.cat(seen), text.repeated(4))
    at = torch.cat([a, a + tokens, b + 2 * tokens, b + 3 * tokens])
    values = torch.stack([torch.cat([x, x, y, y]), torch.cat([x2, x2, y2, y2])], 1)
    up, down = bert.token_logits(hidden[at], values).unbind(1)
    of_y, of_y2, of_x, of_x2 = (up - down).chunk(4)
    gap = (of_y - of_y2) - (of_x - of_x2)
    return (gap.square() * filled).sum() / filled.sum().clamp(min=1)


def _shown(text: PackedText, pairs: PositionPairs, value_a: Int[Tensor, " m"], value_b: Int[Tensor, " m"]) -> Int[Tensor, "R L"]:
    """The rows with these values at the pairs' positions."""
    tokens = text.ids.numel()
    write_a, write_b = (torch.where(pairs.filled, place, tokens) for place in (pairs.a, pairs.b))
    out = torch.cat([text.ids.flatten(), text.ids.new_zeros(1)])
    return out.index_put((write_a,), value_a).index_put((write_b,), value_b)[:-1].view_as(text.ids)


def _draw(logits: Float[Tensor, "m V"], vocabulary: Vocabulary, generator: Generator) -> Int[Tensor, " m"]:
    """One token of each row: argmax of p / e with e exponential."""
    probabilities = logits.float().masked_fill(vocabulary.special, -torch.inf).softmax(-1)
    return (probabilities / torch.empty_like(probabilities).exponential_(generator=generator)).argmax(-1)
