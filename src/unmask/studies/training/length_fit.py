"""The fit of a length head (`unmask.models.length_head`).

The head is fitted by the loss -log p(n | s) of the trained targets' lengths n, on the states of the
finished encoder, which stays as it is. Its table B starts at the logarithm of how often each length
was seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.length_head import LengthHead, pooled_states
from unmask.models.pair_layout import PairLayout

EPOCHS = 12  # At least
LEAST_STEPS = 400  # Of few pairs there are more epochs
BATCH = 256  # Pairs
RATE = 1e-3  # The highest of the schedule
WEIGHT_DECAY = 0.01
DROPOUT = 0.2  # Of the pooled states
NEAR = (1.0, 2.0, 4.0, 2.0, 1.0)
"""Weights of the sum, over lengths up to two tokens less or more, that the count of a length
becomes; for the source and for the target.
"""
UNSEEN = 0.1  # Added to all counts, so that lengths that were not seen remain possible


def fit_length_head(
    network: BertMaskedLM,
    layout: PairLayout,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    seed: int,
) -> LengthHead:
    """The head for this network, from tokens of sources and targets; equal arguments give equal
    heads on one kind of device.
    """
    device = next(network.parameters()).device
    network.bert.unseen = layout.pad
    pooled, tokens = pooled_states(network.eval().bert, layout, sources)
    lengths = torch.tensor([len(target) for target in targets], device=device)
    devices_of_randomness = [device] if device.type == "cuda" else []  # besides the CPU
    with torch.random.fork_rng(devices=devices_of_randomness):
        torch.manual_seed(seed)
        head = LengthHead(
            width=network.config.hidden_size,
            longest_source=layout.longest_source,
            longest=layout.longest_target,
        )
        with torch.no_grad():
            counts = _smoothed_log_counts(tokens.cpu(), lengths.cpu(), head.by_source)
            head.by_source.copy_(counts)
        _fit(head.to(device), pooled, tokens, lengths)
    return head.eval()


def _smoothed_log_counts(
    tokens: Int[Tensor, " n"], lengths: Int[Tensor, " n"], like: Tensor
) -> Float[Tensor, "S longest"]:
    """The log of how often each length was seen with each length of source, or with one near it."""
    ones = torch.ones(len(tokens))
    counts = torch.zeros_like(like).index_put((tokens, lengths - 1), ones, accumulate=True)
    near = torch.tensor(NEAR)
    kernel = near[:, None] * near
    smoothed = functional.conv2d(counts[None, None], kernel[None, None], padding=len(NEAR) // 2)
    return (smoothed[0, 0] + UNSEEN).log()


def _fit(
    head: LengthHead,
    pooled: Float[Tensor, "n D"],
    tokens: Int[Tensor, " n"],
    lengths: Int[Tensor, " n"],
) -> None:
    """Fit the head to the lengths of targets, given the pooled states and tokens of sources."""
    steps_per_epoch = -(-len(pooled) // BATCH)
    epochs = max(EPOCHS, -(-LEAST_STEPS // steps_per_epoch))
    optimiser = torch.optim.AdamW(head.parameters(), RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, epochs * steps_per_epoch)
    for _ in range(epochs):
        for batch in torch.randperm(len(pooled), device=pooled.device).split(BATCH):
            states = functional.dropout(pooled[batch], DROPOUT)
            log_probs = head(states, tokens[batch])
            loss = functional.nll_loss(log_probs, lengths[batch] - 1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
