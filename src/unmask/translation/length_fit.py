"""Fits the head that predicts how long translations are, on the states of the finished encoder.

The loss is -log p(n | s) of the trained targets' lengths n. The encoder stays as it is: each source goes through it once, alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unmask.models.encoder.bert import BertMaskedLM
from unmask.translation.pairs import LengthHead, PairLayout, pooled_states

EPOCHS, LEAST_STEPS, BATCH, RATE, DROPOUT = 12, 400, 256, 1e-3, 0.2


def fit_length_head(
    network: BertMaskedLM, layout: PairLayout, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], seed: int
) -> LengthHead:
    """The head for this network, from tokens of sources and targets; equal arguments give equal heads on one kind of device."""
    device = next(network.parameters()).device
    network.bert.unseen = layout.pad
    rooms = torch.tensor([layout.room(source) for source in sources], device=device)
    pooled = pooled_states(network.eval().bert, rooms, layout.pad)
    tokens = torch.tensor([len(source) for source in sources], device=device)
    lengths = torch.tensor([len(target) for target in targets], device=device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        head = LengthHead(network.config.hidden_size, layout.longest_source, layout.longest_target)
        with torch.no_grad():
            head.by_source.copy_(_smoothed_log_counts(tokens.cpu(), lengths.cpu(), head.by_source))
        _fit(head.to(device), pooled, tokens, lengths)
    return head.eval()


def _smoothed_log_counts(tokens: Int[Tensor, " n"], lengths: Int[Tensor, " n"], like: Tensor) -> Float[Tensor, "S longest"]:
    """How often each length was seen with each length of source, or with one near it."""
    counts = torch.zeros_like(like).index_put((tokens, lengths - 1), torch.ones(len(tokens)), accumulate=True)
    kernel = torch.tensor([1.0, 2.0, 4.0, 2.0, 1.0])
    near = functional.conv2d(counts[None, None], (kernel[:, None] * kernel)[None, None], padding=2)[0, 0]
    return (near + 0.1).log()


def _fit(head: LengthHead, pooled: Float[Tensor, "n D"], tokens: Int[Tensor, " n"], lengths: Int[Tensor, " n"]) -> None:
    each = -(-len(pooled) // BATCH)
    epochs = max(EPOCHS, -(-LEAST_STEPS // each))
    optimiser = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, epochs * each)
    for _ in range(epochs):
        for some in torch.randperm(len(pooled), device=pooled.device).split(BATCH):
            states = functional.dropout(pooled[some], DROPOUT)
            loss = functional.nll_loss(head(states, tokens[some]), lengths[some] - 1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
