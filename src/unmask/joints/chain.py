"""The chain rule through the model's own partly masked conditionals, averaged over orders: what any-order decoders sample.

    p_o(x) = prod_t q(x_{o_t} | x_{o_1} .. x_{o_{t-1}}; the other positions masked),   mu(x) = mean over all k! orders of p_o(x)

For a pair these are two orders, m_a[x] B[x,y] and m_b[y] A[x,y]; one of them needs V + 1 passes. The mean comes from a recursion
over the sets S of positions that are revealed (`unmask.tables.lattice`),

    G(empty) = 1,   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i}),   mu = G(all),

whose last step is a sum of tables times weights of their contexts, mu = sum_t c_t(x_{-t}) q_t(x_t | x_{-t}).

q runs over the support of the tables: the regular tokens, or an alphabet, at every step. Over candidate sets, which are a part
of it, the joint is mu given that the blanks lie in them. So a grid and a search (`unmask.joints.chain_search`) have one law.
"""

from __future__ import annotations

from itertools import combinations
from math import log
from typing import Literal, get_args

import torch
from torch import Tensor

from unmask.checks import one_of
from unmask.joints.joint import Joint
from unmask.joints.rules import MeanRule, SumRule
from unmask.joints.tiles import along
from unmask.tables.unary import Tables

Order = Literal["forward", "backward", "mean"]


def chain(tables: Tables, order: Order = "mean") -> Joint:
    """`order`: from the block's first position to its last, from its last to its first, or the mean over all orders."""
    one_of("order", order, get_args(Order))
    k, dtype = tables.sites, tables.log_q[0].dtype
    if order == "mean":
        contexts = _contexts(tables)
        parts = tuple(SumRule((context.to(dtype), log_q)) for context, log_q in zip(contexts, tables.log_q, strict=True))
        return Joint("chain", tables, MeanRule(parts, (_log_sum(contexts) - log(k),) * k), known_log_z=0.0)
    sites = list(range(k)) if order == "forward" else list(reversed(range(k)))
    *before, last = sites
    factors = [_log_q(tables, tuple(sorted(sites[:step])), t) for step, t in enumerate(before)]
    context = sum(factors, tables.log_inside[last])
    return Joint(f"chain_{order}", tables, SumRule((context, tables.log_q[last])), known_log_z=_log_sum([context]))


def chain_weights(tables: Tables) -> tuple[Tensor, ...]:
    """log c_t over the contexts of each site t, in float64, where the mean over orders is sum_t c_t(x_{-t}) q_t(x_t | x_{-t})."""
    contexts = _contexts(tables)
    log_z = _log_sum(contexts)
    return tuple(context - log_z for context in contexts)


def _contexts(tables: Tables) -> list[Tensor]:
    """log of k c_t before it is normalised: G of all positions but t, times the mass that q_t puts on its candidates."""
    k = tables.sites
    log_g: dict[tuple[int, ...], Tensor] = {(): tables.log_q[0].new_zeros([1] * k, dtype=torch.float64)}
    for size in range(1, k):
        for revealed in combinations(range(k), size):
            before = [(tuple(s for s in revealed if s != t), t) for t in revealed]
            terms = [log_g[given] + _log_q(tables, given, t) for given, t in before]
            log_g[revealed] = torch.stack(torch.broadcast_tensors(*terms)).logsumexp(0) - log(size)
    return [log_g[tuple(s for s in range(k) if s != t)] + inside for t, inside in enumerate(tables.log_inside)]


def _log_q(tables: Tables, given: tuple[int, ...], t: int) -> Tensor:
    """log q(x_t | x_given; the others masked) over the candidates, given fewer than all others."""
    if given:
        return tables.log_between[given, t]
    return along(tables.log_masked[t] + tables.log_masked_inside[t], t, tables.sites)


def _log_sum(contexts: list[Tensor]) -> float:
    """log of the sum of all weights: tables are normalised, so it is that of the sum over all cells."""
    return float(torch.cat([context.double().flatten() for context in contexts]).logsumexp(0))
