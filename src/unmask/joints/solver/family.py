"""The family of near-compatible joints that runs from Arnold-Gokhale (alpha = 0) to the pseudo-Gibbs law (alpha = 1).

Minimise  sum_t sum_{x_{-t}} w_t(x_{-t}) KL(q_t(. | x_{-t}) || mu(. | x_{-t}))  with the weights held fixed: the
stationary point is

    mu = ( sum_t w_t q_t ) / ( sum_t w_t / mu_{-t} ),      mu_{-t} = mu with site t summed out,

and the family takes w_t = mu_{-t}^alpha. A member is its marginals mu_{-t}; what is computed from them streams out of
tiles. Cells are worked out with the marginals divided by a common e^c, which puts their powers in the middle of the
range of floating-point numbers; the rule is homogeneous of degree one in them, so c is added at the end.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from unmask.joints.joint import Index, along, at, sum_at, tiles
from unmask.tables.unary import Tables

Marginals = tuple[Tensor, ...]
"""log mu_{-t} for each t in float64, with size 1 at axis t."""

CACHED_CELLS = 1 << 18
"""Cells of a tile on a CPU: the few arrays of a tile stay in its cache."""
CUDA_CELLS = 1 << 22


def tile_size(tables: Tables) -> int:
    """Cells of a tile that suit the device the tables are on."""
    return CACHED_CELLS if tables.log_q[0].device.type == "cpu" else CUDA_CELLS


def contexts(tables: Tables, t: int) -> Tensor:
    """A float64 zero for every context of site t, the block's shape with size 1 at axis t."""
    shape = [1 if s == t else n for s, n in enumerate(tables.shape)]
    return torch.zeros(shape, dtype=torch.float64, device=tables.log_q[0].device)


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint, or of the uniform distribution (the paper's start)."""
    k = tables.sites
    sites = [along(torch.full_like(m, -log(len(m))) if uniform else m, t, k).double() for t, m in enumerate(tables.log_masked)]
    return tuple(sum((m for s, m in enumerate(sites) if s != t), contexts(tables, t)) for t in range(k))


def centred(log_mu: Marginals, dtype: torch.dtype) -> tuple[list[Tensor], float]:
    """The marginals over e^c, and c. Beyond e^+-80 in float32 (e^+-600 in float64) of c they are held at that bound."""
    lows, highs = zip(*torch.stack([torch.stack(m.aminmax()) for m in log_mu]).tolist(), strict=True)
    c = (max(highs) + max(min(lows), -1e6)) / 2
    return [(m - c).clamp(-bound_of(dtype), bound_of(dtype)) for m in log_mu], c


def bound_of(dtype: torch.dtype) -> float:
    """The largest distance from c at which the exponentials of all powers stay in range."""
    return 600.0 if dtype == torch.float64 else 80.0


class FamilyRule:
    """The unnormalised log cells of the member with parameter `alpha`, given its marginals.

    log_weight  alpha log mu_{-t}, and log_inverse = (alpha - 1) log mu_{-t}, both with mu over e^c; c is added to the cells
    """

    def __init__(self, tables: Tables, log_mu: Marginals, alpha: float) -> None:
        dtype = tables.log_q[0].dtype
        shifted, self.c = centred(tuple(m.double() for m in log_mu), dtype)
        self.tables = tables
        self.log_weight = [(alpha * m).to(dtype) for m in shifted]
        self.log_inverse = [((alpha - 1) * m).to(dtype) for m in shifted]
        self.inverse = [m.exp() for m in self.log_inverse]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        over = [at(q, index) + at(w, index) for q, w in zip(self.tables.log_q, self.log_weight, strict=True)]
        highest = over[0]
        for term in over[1:]:
            highest = torch.maximum(highest, term)
        above = (over[0] - highest).exp_()
        for term in over[1:]:
            above += term.sub_(highest).exp_()
        return above.div_(sum_at(self.inverse, index)).log_().add_(highest).add_(self.c)


def read(tables: Tables, log_mu: Marginals, alpha: float) -> tuple[Marginals, float]:
    """One step of eq. 5: the marginals of the normalised rule at `log_mu`, and log Z. One read of the tables."""
    dtype = tables.log_q[0].dtype
    shifted, c = centred(log_mu, dtype)
    weight = [(alpha * m).exp().to(dtype) for m in shifted]
    inverse = [((alpha - 1) * m).exp().to(dtype) for m in shifted]
    sums = [contexts(tables, t) for t in range(tables.sites)]
    for index in tiles(tables.shape, tile_size(tables)):
        above = at(tables.log_q[0], index).exp().mul_(at(weight[0], index))
        for q, w in zip(tables.log_q[1:], weight[1:], strict=True):
            above += at(q, index).exp().mul_(at(w, index))
        above /= sum_at(inverse, index)
        for t, total in enumerate(sums):
            at(total, index).add_(above.sum(t, keepdim=True))
    log_z = sums[0].sum().log()
    return tuple(s.log() - log_z for s in sums), float(log_z) + c
