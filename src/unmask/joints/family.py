"""The family of near-compatible joints that runs from Arnold-Gokhale (alpha = 0) to the pseudo-Gibbs law (alpha = 1).

Minimise  sum_t sum_{x_{-t}} w_t(x_{-t}) KL(q_t(. | x_{-t}) || mu(. | x_{-t}))  with the weights held fixed: the
stationary point is

    mu = ( sum_t w_t q_t ) / ( sum_t w_t / mu_{-t} ) / Z,      mu_{-t} = mu with site t summed out,

and the family takes w_t = mu_{-t}^alpha. Between steps only the mu_{-t} are kept: one step is one read of the tables.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.conditionals import Tables
from unmask.joints.joint import Index, Rule, at, tiles

Marginals = tuple[Tensor, ...]
"""log mu_{-t} for each t, with size 1 at axis t."""


def family_rule(tables: Tables, log_mu: Marginals, alpha: float) -> Rule:
    """The unnormalised log cells of the member with parameter `alpha`, given its marginals."""

    def rule(index: Index) -> Tensor:
        around = [at(m, index) for m in log_mu]
        above, below = None, None
        for log_q, m in zip(tables.log_q, around, strict=True):
            up, down = at(log_q, index) + alpha * m, (alpha - 1) * m
            above = up if above is None else torch.logaddexp(above, up)
            below = down if below is None else torch.logaddexp(below, down)
        assert above is not None and below is not None
        return above - below

    return rule


def read(tables: Tables, log_mu: Marginals, alpha: float) -> tuple[Marginals, float]:
    """One step: the marginals mu_{-t} of the normalised rule at `log_mu`, and log Z. One read of the tables."""
    rule = family_rule(tables, log_mu, alpha)
    k = tables.sites
    sums: list[list[Tensor]] = [[] for _ in range(k)]
    for index in tiles(tables.shape):
        cells = rule(index)
        first = cells.logsumexp(0, keepdim=True)
        sums[0] = [first if not sums[0] else torch.logaddexp(sums[0][0], first)]
        for t in range(1, k):
            sums[t].append(cells.logsumexp(t, keepdim=True))
    new = [torch.cat(s) if t else s[0] for t, s in enumerate(sums)]
    log_z = float(new[0].double().logsumexp(tuple(range(k))))
    return tuple(m - log_z for m in new), log_z


def start(tables: Tables, uniform: bool = False) -> Marginals:
    """Marginals of the product joint (half the reads), or of the uniform distribution (the paper's start)."""
    k = tables.sites
    flat = [torch.zeros_like(m) - torch.log(torch.tensor(float(len(m)))) for m in tables.log_masked]
    sites = flat if uniform else tables.log_masked
    shaped = [m.reshape([-1 if s == t else 1 for s in range(k)]) for t, m in enumerate(sites)]
    out = []
    for t in range(k):
        others = [m for s, m in enumerate(shaped) if s != t]
        total = others[0]
        for m in others[1:]:
            total = total + m
        out.append(total)
    return tuple(out)
