"""Logits at one position of a text in which a few tokens vary: by the network's own forward pass, and by the fast encoder.

The fast encoder must give the network's answer. `MaskedLM` compares both on its first rows of each length (`agree`), and falls
back to the forward pass if they differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.fused_linear import HALF_TYPES
from unmask.models.encoder.substitution import Substitution

logger = logging.getLogger(__name__)
LARGEST_DIFFERENCE = 1e-3
"""In log-probability, between the fast path and the forward pass; above it the fast path is given up."""
ROUNDING_UNITS = 32
"""The same in half precision: the expected difference, in units of rounding. Right paths are mostly a few units apart."""


def plain_logits(head: Any, text: Tensor, vary: list[int], predict: int) -> Callable[[Tensor], Tensor]:
    """Logits at `predict`, as a function of the tokens at `vary`, by the network's own forward pass; for any architecture."""

    def logits_of(values: Tensor) -> Tensor:
        rows = text.repeat(len(values), 1)
        rows[:, vary] = values
        logits: Tensor = head(rows, torch.full((len(rows), 1), predict, device=text.device))
        return logits[:, 0]

    return logits_of


def shared_logits(head: Any, encoder: Encoder, text: Tensor, vary: list[int], predict: int) -> Callable[[Tensor], Tensor]:
    """The same function; it computes once what all rows share. A padding token shifts positions, so its rows share nothing."""
    shared, plain = Substitution(encoder, text, vary, predict), plain_logits(head, text, vary, predict)

    def logits_of(values: Tensor) -> Tensor:
        logits: Tensor = head.of_hidden(shared.hidden(values).unsqueeze(1))[:, 0]
        if encoder.pad_id is not None:
            shifted = (values == encoder.pad_id).any(1)
            if bool(shifted.any()):
                logits[shifted] = plain(values[shifted])
        return logits

    return logits_of


def has_padding(encoder: Encoder, ids: Tensor) -> bool:
    """Whether `ids` have a padding token that shifts positions."""
    return encoder.pad_id is not None and bool((ids == encoder.pad_id).any())


def agree(fast: Tensor, slow: Tensor, dtype: torch.dtype, name: str, wide: Callable[[], Tensor]) -> bool:
    """Whether the logits of the fast path give the forward pass's log-probabilities; logs a warning if not.

    In half precision both are rounded, by tenths in unlikely tokens, so the expected difference counts. If it is too large, the
    logits of the forward pass in float32, `wide()`, decide: the fast path may be ROUNDING_UNITS further from them than twice the
    forward pass's own distance. So the verdict does not depend on the first text, and a resumed run takes the same path.
    """
    log_q = slow.log_softmax(-1)
    apart = (fast.log_softmax(-1) - log_q).abs()
    if dtype in HALF_TYPES:
        difference, allowed = _expected(apart, log_q), ROUNDING_UNITS * torch.finfo(dtype).eps
        if difference > allowed:
            exact = wide().to(slow).log_softmax(-1)
            allowed += 2 * _expected((log_q - exact).abs(), exact)
            difference = _expected((fast.log_softmax(-1) - exact).abs(), exact)
    else:
        difference, allowed = float(apart.max()), LARGEST_DIFFERENCE
    if difference <= allowed:
        return True
    logger.warning(
        "the fast path for %s differs from its forward pass by %.2g in log-probability: using the forward pass", name, difference
    )
    return False


def _expected(apart: Tensor, log_q: Tensor) -> float:
    """The largest expected difference of a row."""
    return float((log_q.exp() * apart).sum(-1).max())
