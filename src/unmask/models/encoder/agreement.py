"""Whether the fast path gives the answer of a network's own forward pass.

`MaskedLM` compares the two on the first rows of each length, and falls back to the forward pass
if they differ: a wrong description of an architecture costs only speed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from unmask.models.encoder.linear_maps import HALF_TYPES

logger: logging.Logger = logging.getLogger(__name__)
LARGEST_DIFFERENCE = 1e-3
"""Of a log-probability; above it the fast path is given up."""
ROUNDING_UNITS = 32
"""The same in half precision: the expected difference, in units of rounding. Right paths are
mostly a few units apart.
"""


def agree(
    fast: Tensor, slow: Tensor, dtype: torch.dtype, name: str, wide: Callable[[], Tensor]
) -> bool:
    """Whether the logits of the fast path give the forward pass's log-probabilities; logs a
    warning if not.

    fast, slow   logits (n, V) of the fast path and of the forward pass of the network `name`
    wide         gives the logits of the forward pass in float32; called in half precision only
    """
    log_fast = fast.log_softmax(-1)
    log_slow = slow.log_softmax(-1)
    if dtype in HALF_TYPES:
        difference, allowed = _in_half_precision(log_fast, log_slow, dtype, wide)
    else:
        difference = float((log_fast - log_slow).abs().max())
        allowed = LARGEST_DIFFERENCE
    if difference > allowed:
        logger.warning(
            "the fast path for %s differs from its forward pass by %.2g in log-probability: using"
            " the forward pass",
            name,
            difference,
        )
    return difference <= allowed


def _in_half_precision(
    log_fast: Tensor, log_slow: Tensor, dtype: torch.dtype, wide: Callable[[], Tensor]
) -> tuple[float, float]:
    """The difference of the two paths and the largest that is allowed.

    Both paths are rounded, by tenths in unlikely tokens, so the expected difference counts. If
    it is too large, the log-probabilities of the forward pass in float32 decide: the fast path
    may be ROUNDING_UNITS further from them than twice the forward pass's own distance. So the
    verdict does not depend on the first text, and a resumed run takes the same path.
    """
    allowed = ROUNDING_UNITS * torch.finfo(dtype).eps
    difference = _expected(log_fast, log_slow)
    if difference > allowed:
        exact = wide().to(log_slow).log_softmax(-1)
        difference = _expected(log_fast, exact)
        allowed += 2 * _expected(log_slow, exact)
    return difference, allowed


def _expected(log_p: Tensor, log_q: Tensor) -> float:
    """The largest row's sum_x q(x) |log p(x) - log q(x)|."""
    return float((log_q.exp() * (log_p - log_q).abs()).sum(-1).max())
