"""The chain rule through the model's own partly masked conditionals: what any-order decoders sample.

    forward   mu(x) = m_1(x_1) q(x_2 | x_1; rest masked) ... q_k(x_k | x_{<k})
    backward  the same from the last position down;  mean: half of each

For a pair, forward is m_a[x] B[x,y] and needs V + 1 passes. Each order has one of the tables as its last factor, so the mean
is a sum of tables times weights of their contexts, mu = sum_t c_t(x_{-t}) q_t(x_t | x_{-t}).
"""

from __future__ import annotations

from math import log
from typing import Literal, get_args

import torch
from torch import Tensor

from unmask.checks import one_of
from unmask.joints.joint import Joint
from unmask.joints.rules import MeanRule, SumRule
from unmask.joints.tiles import along, contexts
from unmask.tables.unary import Tables

Order = Literal["forward", "backward", "mean"]


def chain(tables: Tables, order: Order = "mean") -> Joint:
    """`order`: from the block's first position, from its last, or the mean of the two joints."""
    one_of("order", order, get_args(Order))
    forward, backward = _orders(tables)
    if order == "mean":
        log_z = tuple(_log_z(rule) for rule in (forward, backward))
        return Joint("chain", tables, MeanRule((forward, backward), log_z), known_log_z=0.0)
    rule = forward if order == "forward" else backward
    return Joint(f"chain_{order}", tables, rule, known_log_z=_log_z(rule))


def chain_weights(tables: Tables) -> tuple[Tensor, ...]:
    """log c_t over the contexts of each site t, in float64, where the mean chain is sum_t c_t(x_{-t}) q_t(x_t | x_{-t}).

    An order ends with one table: the forward order with the last, the backward order with the first.
    """
    weights = [contexts(tables, t) - torch.inf for t in range(tables.sites)]
    for t, rule in zip((-1, 0), _orders(tables), strict=True):
        *before, _, inside = rule.factors
        weights[t] = sum(before, inside).double() - _log_z(rule) - log(2)
    return tuple(weights)


def _orders(tables: Tables) -> tuple[SumRule, SumRule]:
    """Forward and backward; the factor before the last is the table that the order ends with."""
    k = tables.sites
    first, last = along(tables.log_masked[0], 0, k), along(tables.log_masked[-1], k - 1, k)
    return (
        SumRule((first, *tables.log_forward, tables.log_q[-1], tables.log_inside[-1])),
        SumRule((last, *tables.log_backward, tables.log_q[0], tables.log_inside[0])),
    )


def _log_z(rule: SumRule) -> float:
    """The last table of a chain, the factor before the last, is normalised, so the sum is that of the others."""
    *before, _, inside = rule.factors
    return float(sum(before, inside).double().logsumexp(tuple(range(inside.dim()))))
