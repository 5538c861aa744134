"""The form that the cells of a construction have for a pair, which lets one GPU program sum them all.

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),     Li = a_i log A + b_i log B + f_i[x] + e_i[y]

L2 and the denominator are absent in most. Where there is an L2, it is over B alone, and L1 over A alone: the near-compatible
family has L1 = log A + log of the weight of y, L2 = log B + log of the weight of x, and a denominator; the mean of the two
chains has L1 and L2 and no denominator. A rule that has this form says so in a method `pair_form(tables)`; any other is read
from tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.joint import Rule
from unmask.joints.triton.stack import aligned
from unmask.models.batching import triton_wanted
from unmask.tables.unary import Tables


@dataclass(frozen=True)
class Linear:
    """a log A + b log B + f[x] + e[y]; a and b are -1, 0 or 1. Several pairs have a row each in f and e; None is zero."""

    a: int
    b: int
    f: Tensor | None = None
    e: Tensor | None = None


@dataclass(frozen=True)
class PairForm:
    """log(exp first + exp second) - log(exp g[x] + exp h[y]); `second` and `below` = (g, h) may be absent.

    Where there is a `second`, it is over log B, and `first` over log A.
    """

    first: Linear
    second: Linear | None = None
    below: tuple[Tensor, Tensor] | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """What forms must share to be summed in one launch: all but the numbers."""
        parts = (self.first, self.second) if self.second else (self.first,)
        return (self.below is None, *((part.a, part.b, part.f is None, part.e is None) for part in parts))

    def along(self, t: int, fixed: Int[Tensor, "pairs 1"], log_a: Tensor, log_b: Tensor) -> Float[Tensor, "pairs n"]:
        """The cells along site t of several pairs, the other site at `fixed`; `log_a`, `log_b`: the tables there."""

        def sides(f: Tensor | None, e: Tensor | None) -> list[Tensor]:
            both = ((f, t == 0), (e, t == 1))
            return [torch.zeros_like(log_a[:, :1]) if v is None else v if whole else v.gather(1, fixed) for v, whole in both]

        def linear(part: Linear) -> Tensor:
            f, e = sides(part.f, part.e)
            return sum((log if power > 0 else -log for power, log in ((part.a, log_a), (part.b, log_b)) if power), f + e)

        cells = linear(self.first)
        if self.second is not None:
            cells = torch.logaddexp(cells, linear(self.second))
        return cells if self.below is None else cells - torch.logaddexp(*sides(*self.below))


def stacked(forms: Sequence[PairForm]) -> PairForm:
    """Forms of one kind, of a pair each, as one form of several pairs."""
    seconds, belows = [form.second for form in forms if form.second], [form.below for form in forms if form.below]
    return PairForm(
        _stacked([form.first for form in forms]),
        _stacked(seconds) if seconds else None,
        (torch.stack([g for g, _ in belows]), torch.stack([h for _, h in belows])) if belows else None,
    )


def _stacked(parts: Sequence[Linear]) -> Linear:
    vectors = [[v for v in side if v is not None] for side in ([p.f for p in parts], [p.e for p in parts])]
    return Linear(parts[0].a, parts[0].b, *(torch.stack(side) if side else None for side in vectors))


def triton_serves(*blocks: Tables) -> bool:
    """Whether the tables are those of pairs in float32 on a GPU that Triton compiles for."""
    if not triton_wanted(blocks[0].log_q[0]):
        return False
    return all(tables.sites == 2 and all(q.dtype == torch.float32 and aligned(q) for q in tables.log_q) for tables in blocks)


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None where it has none that is known."""
    form = getattr(rule, "pair_form", None)
    found: PairForm | None = form(tables) if form is not None else None
    return found
