"""The chain rule through the model's own partly masked conditionals: what any-order decoders sample.

    forward   mu(x) = m_1(x_1) q(x_2 | x_1; rest masked) ... q_k(x_k | x_{<k})
    backward  the same from the last position down;  mean: half of each

For a pair, forward is m_a[x] B[x,y] and needs V + 1 passes.
"""

from __future__ import annotations

from math import log
from typing import Literal

import torch

from unmask.conditionals import Tables
from unmask.errors import InputError
from unmask.joints.joint import Index, Joint, along, sum_at

Order = Literal["forward", "backward", "mean"]


def chain(tables: Tables, order: Order = "mean") -> Joint:
    """`order`: from the block's first position, from its last, or the mean of the two joints."""
    k = tables.sites
    forward = [along(tables.log_masked[0], 0, k), *tables.log_forward, tables.log_q[-1], tables.log_inside[-1]]
    backward = [along(tables.log_masked[-1], k - 1, k), *tables.log_backward, tables.log_q[0], tables.log_inside[0]]
    if order == "mean":
        return _mean(tables, Joint("", tables, lambda i: sum_at(forward, i)), Joint("", tables, lambda i: sum_at(backward, i)))
    if order not in ("forward", "backward"):
        raise InputError(f"chain order {order!r} is unknown: use forward, backward or mean")
    factors = forward if order == "forward" else backward
    return Joint(f"chain_{order}", tables, lambda index: sum_at(factors, index))


def _mean(tables: Tables, forward: Joint, backward: Joint) -> Joint:
    def rule(index: Index) -> torch.Tensor:
        return torch.logaddexp(forward.log_tile(index), backward.log_tile(index)) - log(2)

    return Joint("chain", tables, rule, log_z=0.0)
