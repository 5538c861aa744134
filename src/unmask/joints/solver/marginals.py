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


def centred(log_mu: Marginals, dtype: torch.dtype) -> tuple[list[Tensor], float]:
    """The marginals over e^c, and c. Beyond e^+-80 in float32 (e^+-600 in float64) of c they are held at that bound."""
    lows, highs = zip(*torch.stack([torch.stack(m.aminmax()) for m in log_mu]).tolist(), strict=True)
    c = (max(highs) + max(min(lows), -1e6)) / 2
    return [(m - c).clamp(-_bound(dtype), _bound(dtype)) for m in log_mu], c


def centred_rows(points: Float[Tensor, "m n"], dtype: torch.dtype) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    """The same for several members of the family, the marginals of each in one row."""
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    c = (high + low.clamp_min(-1e6)) / 2
    return (points - c).clamp(-_bound(dtype), _bound(dtype)), c


def _bound(dtype: torch.dtype) -> float:
    """The largest distance from c at which the exponentials of all powers stay in range."""
    return 600.0 if dtype == torch.float64 else 80.0
