"""The losses of a masked model by their definition, one conditional after another, for any conditional model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch

from unmask.models.conditional_model import ConditionalModel


def block_nll(
    model: ConditionalModel, ids: torch.Tensor, block: Sequence[int], orders: Sequence[Sequence[int]] | None = None
) -> torch.Tensor:
    """-log p(x_K | x_{-K}) of each text by the chain rule, averaged over `orders` of the block (by default all k!)."""
    chosen = list(permutations(block)) if orders is None else orders
    total = torch.zeros(len(ids), dtype=torch.float64)
    for order in chosen:
        shown = masked(model, ids, block)
        for position in order:
            total -= _log_prob(model, shown, position, ids[:, position])
            shown[:, position] = ids[:, position]
    return total / len(chosen)


def factorised_nll(model: ConditionalModel, ids: torch.Tensor, block: Sequence[int]) -> torch.Tensor:
    """sum_{i in K} -log q(x_i | x_{-K}) of each text."""
    shown = masked(model, ids, block)
    return -sum(_log_prob(model, shown, i, ids[:, i]) for i in block)


def masked(model: ConditionalModel, ids: torch.Tensor, block: Sequence[int]) -> torch.Tensor:
    """The texts with the block masked."""
    shown = ids.clone()
    shown[:, list(block)] = model.mask_id
    return shown


def _log_prob(model: ConditionalModel, shown: torch.Tensor, position: int, token: torch.Tensor) -> torch.Tensor:
    logits = model.logits(shown, torch.full((len(shown), 1), position))[:, 0]
    return logits.log_softmax(-1).gather(1, token.unsqueeze(1)).squeeze(1)
