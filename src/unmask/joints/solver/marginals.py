"""The marginals mu_{-t} (mu with site t summed out): all that the fixed point of the near-compatible family consists of.

They are worked with divided by a common e^c, which puts their powers in the middle of the range of floating-point numbers.
"""

from __future__ import annotations

from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.tiles import along, contexts
from unmask.tables.unary import Tables

Marginals = tuple[Tensor, ...]
"""log mu_{-t} for each t in float64, with size 1 at axis t."""
LOWEST = -1200.0
"""The logarithm that a marginal of zero is given: that of a token which the model rules out in every context."""
REACH = {torch.float32: 80.0, torch.float64: 600.0}
"""How far logarithms may lie from c, so that their powers are positive numbers."""


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint, or of the uniform distribution (the paper's start)."""
    k = tables.sites
    sites = [along(torch.full_like(m, -log(len(m))) if uniform else m, t, k).double() for t, m in enumerate(tables.log_masked)]
    return tuple(sum((m for s, m in enumerate(sites) if s != t), contexts(tables, t)) for t in range(k))


def flat(log_mu: Marginals) -> Float[Tensor, " n"]:
    """All marginals in one vector."""
    return torch.cat([m.flatten() for m in log_mu])


def unflat(vector: Float[Tensor, " n"], like: Marginals) -> Marginals:
    """The marginals in a vector, in the shapes of `like`."""
    parts = vector.split([m.numel() for m in like])
    return tuple(part.reshape(m.shape) for part, m in zip(parts, like, strict=True))


def centred_rows(points: Float[Tensor, "m n"], dtype: torch.dtype) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    """Log marginals, those of several members in one row each, over e^c, and c, the middle of their range.

    Of marginals that are further apart than e^160 in float32 (e^1200 in float64) the smallest are raised.
    """
    most = REACH[dtype]
    high = points.amax(1, keepdim=True)
    low = torch.maximum(points.amin(1, keepdim=True), high - 2 * most)
    c = (high + low) / 2
    return (points - c).clamp_min(-most), c
