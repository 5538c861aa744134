"""A few fixed texts of random ids, by which a function is identified and a causal network is found
out.

A network is causal if the logits at a position change with the tokens before it and never with
those after it. Such logits are no conditionals of a blank within a text.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.errors import ModelError
from unmask.models.batching import passes

TEXTS = 4
TOKENS = 5  # of each text
MIDDLE = TOKENS // 2


def probe_texts(vocab_size: int) -> Int[Tensor, "n T"]:
    """TEXTS texts of TOKENS ids below `vocab_size`, always the same."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(vocab_size, (TEXTS, TOKENS), generator=generator)


@passes()
def refuse_causal(
    logits: Callable[[Tensor], Tensor],
    mask_id: int,
    vocab_size: int,
    device: torch.device,
    name: str,
) -> None:
    """Raise ModelError if a network is causal.

    logits       from ids (n, T) to logits (n, T, V)
    mask_id      the token in the middle of each text, where the logits are compared
    vocab_size   number of ids that the texts are made of
    device       where the network takes its ids
    name         what the message calls the network
    """
    texts = probe_texts(vocab_size)
    texts[:, MIDDLE] = mask_id
    next_texts = texts.roll(1, 0)  # other tokens at almost every position
    other_before = texts.clone()
    other_before[:, :MIDDLE] = next_texts[:, :MIDDLE]
    other_after = texts.clone()
    other_after[:, MIDDLE + 1 :] = next_texts[:, MIDDLE + 1 :]

    rows = torch.cat([texts, other_before, other_after]).to(device)
    middle = logits(rows)[:, MIDDLE].view(3, TEXTS, -1)
    moved_by_before = _largest_change(middle[0], middle[1])
    moved_by_after = _largest_change(middle[0], middle[2])
    if moved_by_before > 0 and moved_by_after == 0:
        raise ModelError(
            f"{name} is causal (no token changes the logits before it): give a network in which"
            " every position sees all others"
        )


def _largest_change(logits: Tensor, others: Tensor) -> float:
    """The largest difference of two logits; logits that are -inf in both do not differ."""
    return float((logits - others).abs().nan_to_num(0.0).max())
