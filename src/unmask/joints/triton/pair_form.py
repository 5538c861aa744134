"""The form that the cells of a construction have for a pair, which lets one GPU program sum them all.

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),     Li = a_i log A + b_i log B + f_i[x] + e_i[y]

L2 and the denominator are absent in most; the near-compatible family has L1 = log A + log of the weight of y, L2 = log B +
log of the weight of x, and a denominator; the mean of the two chains has L1 and L2 and no denominator. A rule that has
this form says so in a method `pair_form(tables)`; any other is read from tiles.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor

from unmask.checks import one_of
from unmask.joints.joint import Rule
from unmask.tables.unary import Tables

SWITCH = "UNMASK_TRITON"
"""Environment variable: auto (the default), off for tiles everywhere, on for Triton on every device (interpreted on a CPU)."""


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


def triton_serves(tables: Tables) -> bool:
    """Whether the tables are a pair's in float32 on a GPU that Triton compiles for."""
    a = tables.log_q[0]
    wanted = one_of(SWITCH, os.environ.get(SWITCH, "auto"), ("auto", "on", "off"))
    if tables.sites != 2 or a.dtype != torch.float32 or not all(q.is_contiguous() for q in tables.log_q):
        return False
    return wanted == "on" or (wanted == "auto" and a.is_cuda and find_spec("triton") is not None)


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None where it has none that is known."""
    form = getattr(rule, "pair_form", None)
    found: PairForm | None = form(tables) if form is not None else None
    return found


def table_form(tables: Tables, a: int, b: int) -> PairForm:
    """a log A + b log B."""
    return PairForm(Linear(a, b, *zeros(tables)))


def zeros(tables: Tables) -> tuple[Tensor, Tensor]:
    """A zero for every x and for every y of a pair."""
    like = tables.log_q[0]
    return like.new_zeros(like.shape[0]), like.new_zeros(like.shape[1])
