"""The form that the cells of every construction have for a pair, which lets one kernel sum them all.

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),     Li = a_i log A + b_i log B + f_i[x] + e_i[y]

L2 and the denominator are absent in most; the near-compatible family has L1 = log A + alpha log v, L2 = log B + alpha
log u, g = (alpha - 1) log u, h = (alpha - 1) log v; the mean of the two chains has L1 and L2 and no denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import log

import torch
from torch import Tensor

from unmask.joints.joint import Rule
from unmask.joints.rules import MeanRule, SumRule
from unmask.joints.solver.family import FamilyRule
from unmask.tables.unary import Tables


@dataclass(frozen=True)
class Linear:
    """a log A + b log B + f[x] + e[y]; a and b are -1, 0 or 1."""

    a: int
    b: int
    f: Tensor
    e: Tensor


@dataclass(frozen=True)
class PairForm:
    """log(exp first + exp second) - log(exp g[x] + exp h[y]); `second` and `below` = (g, h) may be absent."""

    first: Linear
    second: Linear | None = None
    below: tuple[Tensor, Tensor] | None = None


def kernels_serve(tables: Tables) -> bool:
    """Whether the tables are a pair's in float32 on a GPU that the kernels of `pair_sums` and `pair_flows` run on."""
    a = tables.log_q[0]
    if tables.sites != 2 or a.dtype != torch.float32 or not a.is_cuda or not all(q.is_contiguous() for q in tables.log_q):
        return False
    return find_spec("triton") is not None


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None where it has none that is known."""
    if isinstance(rule, SumRule):
        first = _linear(tables, rule, 0.0)
        return None if first is None else PairForm(first)
    if isinstance(rule, MeanRule) and len(rule.parts) == 2:
        halves = [_linear(tables, part, -z - log(2)) for part, z in zip(rule.parts, rule.log_z, strict=True)]
        if halves[0] is not None and halves[1] is not None:
            return PairForm(halves[0], halves[1])
    if isinstance(rule, FamilyRule):
        (v, u), (below_v, below_u), (f, e) = rule.log_weight, rule.log_inverse, _zeros(tables)
        first, second = Linear(1, 0, f + rule.c, v.flatten()), Linear(0, 1, u.flatten() + rule.c, e)
        return PairForm(first, second, (below_u.flatten(), below_v.flatten()))
    return None


def table_form(tables: Tables, a: int, b: int) -> PairForm:
    """a log A + b log B."""
    return PairForm(Linear(a, b, *_zeros(tables)))


def _linear(tables: Tables, rule: SumRule, constant: float) -> Linear | None:
    powers = [0, 0]
    f, e = _zeros(tables)
    f += constant
    for factor in rule.factors:
        if factor is tables.log_q[0]:
            powers[0] += 1
        elif factor is tables.log_q[1]:
            powers[1] += 1
        elif factor.shape[1] == 1:
            f += factor.flatten()
        elif factor.shape[0] == 1:
            e += factor.flatten()
        else:
            return None
    return Linear(powers[0], powers[1], f, e) if max(powers) <= 1 else None


def _zeros(tables: Tables) -> tuple[Tensor, Tensor]:
    like = tables.log_q[0]
    return like.new_zeros(like.shape[0]), like.new_zeros(like.shape[1])
