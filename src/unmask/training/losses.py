"""Losses of a masked language model, all of one form: a weighted sum of -log q(x_i | what is shown) over positions i.

Let K be the masked set, drawn by a scheme, and k = |K|.

    factorised      sum_{i in K} -log q(x_i | x_{-K}).  Its optimum is the block loss plus E[TC(X_K | X_{-K})].
    block           -log p(x_K | x_{-K}) by the chain rule along a uniformly random order s of K:
                    sum_j -log q(x_{s_j} | x_{-K}, x_{s_1..s_{j-1}}).  One pass estimates it without bias: draw j uniform
                    on 0..k-1, show j random positions of K, and weigh each of the k - j that stay masked by k / (k - j).

Both are reported per position of K. The compatibility regulariser compares the two unary conditionals of a pair (a, b),
the rest of the text shown. They come from one joint if and only if, for all x, x', y, y', the log cross-ratios agree:

    log [q_a(x|y) q_a(x'|y') / (q_a(x'|y) q_a(x|y'))]  =  log [q_b(y|x) q_b(y'|x') / (q_b(y'|x) q_b(y|x'))].

Normalisers cancel, so logits serve. The penalty is the mean squared difference over sampled pairs and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.options.training import LossName
from unmask.training.layout import PackedText
from unmask.training.masking import noise


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


def block_nll(
    model: ConditionalModel, ids: Int[Tensor, "n T"], block: Sequence[int], orders: Sequence[Sequence[int]] | None = None
) -> Float[Tensor, " n"]:
    """-log p(x_K | x_{-K}) of each text by the chain rule, averaged over `orders` of the block (by default all k!)."""
    chosen = list(permutations(block)) if orders is None else orders
    total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
    for order in chosen:
        shown = ids.clone()
        shown[:, list(block)] = model.mask_id
        for position in order:
            total -= _log_prob(model, shown, position, ids[:, position])
            shown[:, position] = ids[:, position]
    return total / len(chosen)


def factorised_nll(model: ConditionalModel, ids: Int[Tensor, "n T"], block: Sequence[int]) -> Float[Tensor, " n"]:
    """sum_{i in K} -log q(x_i | x_{-K}) of each text."""
    shown = ids.clone()
    shown[:, list(block)] = model.mask_id
    return -torch.stack([_log_prob(model, shown, p, ids[:, p]) for p in block]).sum(0)


def _log_prob(model: ConditionalModel, shown: Int[Tensor, "n T"], position: int, token: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    logits = model.logits(shown, torch.full((len(shown), 1), position, device=shown.device))[:, 0]
    return logits.log_softmax(-1).gather(1, token.unsqueeze(1)).squeeze(1)


def cross_ratio_gap(
    a_given_y: Float[Tensor, "n V"],
    a_given_y2: Float[Tensor, "n V"],
    b_given_x: Float[Tensor, "n V"],
    b_given_x2: Float[Tensor, "n V"],
    x: Int[Tensor, " n"],
    x2: Int[Tensor, " n"],
    y: Int[Tensor, " n"],
    y2: Int[Tensor, " n"],
) -> Float[Tensor, " n"]:
    """Log cross-ratio of q_a over (x, x2 | y, y2) minus that of q_b over (y, y2 | x, x2), from logits or log-probabilities."""

    def contrast(logits: Float[Tensor, "n V"], up: Int[Tensor, " n"], down: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        return (logits.gather(1, up.unsqueeze(1)) - logits.gather(1, down.unsqueeze(1))).squeeze(1)

    of_a = contrast(a_given_y, x, x2) - contrast(a_given_y2, x, x2)
    of_b = contrast(b_given_x, y, y2) - contrast(b_given_x2, y, y2)
    return of_a - of_b


def compatibility_penalty(
    model: ConditionalModel, ids: Int[Tensor, "n T"], a: int, b: int, x2: Int[Tensor, " n"], y2: Int[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Mean squared cross-ratio gap at positions a and b, between each text's own values and (x2, y2)."""

    def logits(predict: int, given: int, value: Int[Tensor, " n"]) -> Float[Tensor, "n V"]:
        shown = ids.clone()
        shown[:, predict] = model.mask_id
        shown[:, given] = value
        return model.logits(shown, torch.full((len(ids), 1), predict, device=ids.device))[:, 0]

    x, y = ids[:, a], ids[:, b]
    gap = cross_ratio_gap(logits(a, b, y), logits(a, b, y2), logits(b, a, x), logits(b, a, x2), x, x2, y, y2)
    return gap.square().mean()
